//! Escaping and insertion of untrusted text into the page.

use std::borrow::Cow;

/// Escapes a text for HTML and SVG, as content and as attribute. Two kinds of characters become
/// U+FFFD: control characters, which XML does not allow, and direction overrides, with which a name
/// could reorder the words around it. A text longer than any regular label is truncated.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (count, c) in text.chars().enumerate() {
        if count == TEXT_CHARS {
            out.push('…');
            break;
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}')
            }
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Shortens a text to at most `chars` characters.
pub(super) fn shortened(text: &str, chars: usize) -> Cow<'_, str> {
    if text.chars().count() <= chars {
        return text.into();
    }
    let head: String = text.chars().take(chars.saturating_sub(1)).collect();
    format!("{head}…").into()
}

/// Begins a section. [`contents`] finds it by its title, which must be a constant without markup.
pub(super) fn section_head(out: &mut String, title: &str) {
    let id = anchor(title);
    out.push_str(&format!(
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n",
        escape(title)
    ));
}

/// Returns links to the sections of `body`, for long pages and for keyboard navigation.
pub(super) fn contents(body: &str) -> String {
    let begins = body.split("<h2 id=\"").skip(1);
    let links = begins.filter_map(|rest| {
        let (id, rest) = rest.split_once("\">")?;
        let (title, _) = rest.split_once("</h2>")?;
        Some(format!("<a href=\"#{id}\">{title}</a>"))
    });
    let links: Vec<String> = links.collect();
    if links.len() < 2 {
        return String::new();
    }
    format!("<nav aria-label=\"Sections\">{}</nav>\n", links.join(" "))
}

fn anchor(title: &str) -> String {
    let letters = title.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        _ => '-',
    });
    letters.collect()
}

/// Appends a paragraph that states which content is missing.
pub(super) fn missing(out: &mut String, sentence: &str) {
    out.push_str(&format!("<p class=\"missing\">{}</p>\n", escape(sentence)));
}

/// Appends a paragraph that states a read error.
pub(super) fn problem(out: &mut String, sentence: &str) {
    out.push_str(&format!("<p class=\"problem\">{}</p>\n", escape(sentence)));
}

/// Maximum number of characters of a name in a table. Names are untrusted, and a long one must not
/// push the other columns off the page.
pub(super) const NAME_CHARS: usize = 40;

const TEXT_CHARS: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_lead_to_the_sections() {
        let mut body = String::new();
        section_head(&mut body, "Checks");
        assert_eq!(contents(&body), "", "one section needs no list");
        section_head(&mut body, "Time & again");
        let links = contents(&body);
        assert!(links.contains("<a href=\"#checks\">Checks</a>"), "{links}");
        assert!(links.contains("<a href=\"#time---again\">Time &amp; again</a>"));
    }

    #[test]
    fn nothing_gets_out_of_its_place() {
        assert_eq!(
            escape("<script>alert('x')</script> & \"\0\u{202e}\""),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;\u{fffd}\u{fffd}&quot;"
        );
        assert_eq!(escape(&"&".repeat(10_000)).len(), TEXT_CHARS * 5 + 3);
        assert_eq!(shortened("äöü-long", 4), "äöü…");
    }
}
