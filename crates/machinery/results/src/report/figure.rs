//! Figures with numbers and captions, as in a paper.

use super::markup::escape;

/// Counter that assigns figure numbers.
#[derive(Default)]
pub(super) struct Numbering(usize);

impl Numbering {
    /// Begins a figure. [`Numbering::end`] must be called to end it.
    pub(super) fn begin(&mut self, out: &mut String) {
        self.0 += 1;
        out.push_str("<figure>\n");
    }

    /// Appends the caption and ends the figure. `lead` is shown in bold before `text`; both are
    /// plain text.
    pub(super) fn end(&self, out: &mut String, lead: &str, text: &str) {
        out.push_str(&format!(
            "<figcaption><b>Figure {}. {}</b> {}</figcaption>\n</figure>\n",
            self.0,
            escape(lead),
            escape(text)
        ));
    }
}

/// Returns the letter of a panel in a figure: `(a)`, `(b)`, …
pub(super) fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => format!("({})", char::from(b'a' + index)),
        _ => format!("({})", index + 1),
    }
}

/// Appends an entry of a legend: a short line and a text.
pub(super) fn key(out: &mut String, colour: &str, dash: &str, width: f64, text: &str) {
    out.push_str(&format!(
        "<span class=\"key\"><svg width=\"26\" height=\"10\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">\
         <path d=\"M1 5H25\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{dash}\"/></svg>{}</span> ",
        escape(text)
    ));
}
