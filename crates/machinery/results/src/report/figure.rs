//! Figures with number and caption, as in a paper.

use super::markup::escape;

/// Assigns figure numbers.
#[derive(Default)]
pub(super) struct Numbering(usize);

impl Numbering {
    /// Begins a figure; close it with [`Numbering::end`].
    pub(super) fn begin(&mut self, out: &mut String) {
        self.0 += 1;
        out.push_str("<figure>\n");
    }

    /// Appends the caption, a bold lead and a text (both plain), and ends the figure.
    pub(super) fn end(&self, out: &mut String, lead: &str, text: &str) {
        out.push_str(&format!(
            "<figcaption><b>Figure {}. {}</b> {}</figcaption>\n</figure>\n",
            self.0,
            escape(lead),
            escape(text)
        ));
    }
}

/// Returns `(a)`, `(b)`, … for the panels of a figure.
pub(super) fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => format!("({})", char::from(b'a' + index)),
        _ => format!("({})", index + 1),
    }
}

/// Appends a short piece of line for a legend, with its text.
pub(super) fn key(out: &mut String, colour: &str, dash: &str, width: f64, text: &str) {
    out.push_str(&format!(
        "<span class=\"key\"><svg width=\"26\" height=\"10\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">\
         <path d=\"M1 5H25\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{dash}\"/></svg>{}</span> ",
        escape(text)
    ));
}
