//! Filtering of text from programs, run directories and other machines for terminals.
//!
//! [`visible`] keeps the content of a text, for output; `timeloom_run::exit` applies it to all output of
//! the programs. [`one_line`] makes a name that a program has chosen harmless within a message.
//! Both have the same rule of characters.
#![forbid(unsafe_code)]
// Conversions state their result. Tests count in small numbers.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text with each character that a terminal would act upon made visible. These are
/// escape sequences, control characters except newline and tab, and characters that reverse the
/// writing direction. An escape is shown as `\x1b` and others as `\u009b`, so that a JSON object
/// keeps its meaning.
pub fn visible(text: &str) -> Cow<'_, str> {
    filtered(text, |_| 0)
}

/// Filters a text like [`visible`], but keeps the sequences that select colours. For text that
/// Timeloom has coloured itself.
pub fn visible_in_colours(text: &str) -> Cow<'_, str> {
    filtered(text, colour)
}

/// Returns the text with a question mark in place of each character that a terminal would act upon,
/// including newline and tab. For names that programs choose, within a line of a message.
pub fn one_line(text: &str) -> String {
    let shown = |c: char| match is_acted_upon(c) || c == '\n' || c == '\t' {
        true => '?',
        false => c,
    };
    text.chars().map(shown).collect()
}

/// Filters a text. `kept` returns the number of bytes at the beginning of its argument that stay
/// unchanged.
fn filtered(text: &str, kept: impl Fn(&str) -> usize) -> Cow<'_, str> {
    if !text.chars().any(is_acted_upon) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = kept(rest);
        if length > 0 {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        // Writing to a String cannot fail.
        let _ = match u32::from(c) {
            _ if !is_acted_upon(c) => out.write_char(c),
            code @ 0..0x20 => write!(out, "\\x{code:02x}"),
            code => write!(out, "\\u{code:04x}"),
        };
    }
    Cow::Owned(out)
}

fn is_acted_upon(c: char) -> bool {
    let is_direction = matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() && c != '\n' && c != '\t' || is_direction
}

/// Returns the length of a sequence such as `ESC [ 1 ; 31 m` at the beginning of the text; 0 if
/// there is none.
fn colour(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';');
    match end {
        Some(end) if parameters[end..].starts_with('m') => 2 + end + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_escaped() {
        assert!(matches!(visible("plain\ttext\nü √ 漢"), Cow::Borrowed(_)));
        // Sets a title, requests a reply, overwrites a line, uses an 8-bit CSI, and reverses the
        // writing.
        let shown = visible("\u{1b}]0;x\u{7}\u{1b}[6n\rdone\u{9b}2J\u{7f}\u{202e}cod");
        assert_eq!(
            shown,
            "\\x1b]0;x\\x07\\x1b[6n\\x0ddone\\u009b2J\\u007f\\u202ecod"
        );
    }

    #[test]
    fn colours_of_our_own_stay_and_nothing_else() {
        let text = "\u{1b}[1;31merror\u{1b}[0m \u{1b}[2J\u{1b}[31";
        let shown = "\u{1b}[1;31merror\u{1b}[0m \\x1b[2J\\x1b[31";
        assert_eq!(visible_in_colours(text), shown);
        assert_eq!(visible_in_colours("\u{1b}[0m"), "\u{1b}[0m");
        assert_eq!(visible_in_colours("\u{1b}[\u{1b}[m"), "\\x1b[\u{1b}[m");
    }

    #[test]
    fn names_stay_in_one_line_and_keep_their_direction() {
        let name = "a\u{1b}[2J\r\n\tb\u{9b}\u{202e}c\u{2066}\u{200f}ü";
        assert_eq!(one_line(name), "a?[2J???b??c??ü");
    }

    #[test]
    fn an_object_stays_the_same() {
        let value = serde_json::json!({ "text": "\u{1b}[2J\u{9b}\u{7f}\u{2028}\u{202e}ü" });
        let shown = visible(&value.to_string()).into_owned();
        let again: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(again, value);
    }
}
