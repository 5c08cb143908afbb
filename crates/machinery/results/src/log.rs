//! Log of a program's output, in which each line has a timestamp in virtual time.
//!
//! A line has the form `[   22.500123] text`. The timestamp is in seconds since the session began,
//! with microseconds. Output may contain any bytes: everything but printable UTF-8 becomes `\xHH`,
//! so that no escape sequence reaches the terminal that shows the log. A line that is too long is
//! split.

use std::fmt::Write as _;
use std::io::{self, Write};

use timeloom_time::{Instant, Virtual};

/// Writer that adds a timestamp to each line: the instant at which the line's first byte arrived. A
/// line is passed on when it ends; a last line without newline, when the writer is dropped.
#[derive(Debug)]
pub struct LogWriter<W: Write, F: FnMut() -> Instant<Virtual>> {
    writer: W,
    now: F,
    line: Vec<u8>,
    began: Instant<Virtual>,
    /// True if the current line continues a line that was split because of its length.
    continues: bool,
}

impl<W: Write, F: FnMut() -> Instant<Virtual>> LogWriter<W, F> {
    /// Creates a writer that takes timestamps from `now`.
    pub fn new(writer: W, now: F) -> Self {
        Self {
            writer,
            now,
            line: Vec::new(),
            began: Instant::ZERO,
            continues: false,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.line.is_empty() && !bytes.is_empty() {
            self.began = (self.now)();
        }
        self.line.extend_from_slice(bytes);
    }

    /// Writes the current line. `broken` is true if the line was split and continues in the next.
    fn end_line(&mut self, broken: bool) -> io::Result<()> {
        // A line is not split within a character: the incomplete character is kept for the next
        // part.
        let kept = if broken {
            whole_characters(&self.line)
        } else {
            self.line.len()
        };
        let mut text = stamp(self.began);
        if self.continues {
            text.push_str("… ");
        }
        let line = &self.line[..kept];
        printable(
            if broken {
                line
            } else {
                line.strip_suffix(b"\r").unwrap_or(line)
            },
            &mut text,
        );
        text.push('\n');
        self.line.drain(..kept);
        self.continues = broken;
        self.writer.write_all(text.as_bytes())
    }
}

impl<W: Write, F: FnMut() -> Instant<Virtual>> Write for LogWriter<W, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (mut rest, ends) = match piece.strip_suffix(b"\n") {
                Some(rest) => (rest, true),
                None => (piece, false),
            };
            while self.line.len() + rest.len() > LINE_BYTES {
                let (head, tail) = rest.split_at(LINE_BYTES.saturating_sub(self.line.len()));
                self.push(head);
                self.end_line(true)?;
                rest = tail;
            }
            self.push(rest);
            if ends {
                if self.line.is_empty() {
                    self.began = (self.now)();
                }
                self.end_line(false)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl<W: Write, F: FnMut() -> Instant<Virtual>> Drop for LogWriter<W, F> {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            // An error cannot be reported here, because the program has ended.
            let _ = self.end_line(false);
        }
        let _ = self.writer.flush();
    }
}

fn stamp(at: Instant<Virtual>) -> String {
    let us = at.as_ns().div_euclid(1000);
    format!(
        "[{:>5}.{:06}] ",
        us.div_euclid(1_000_000),
        us.rem_euclid(1_000_000)
    )
}

fn printable(line: &[u8], out: &mut String) {
    for chunk in line.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() && c != '\t' {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes)
                    .bytes()
                    .for_each(|byte| escape(byte, out));
            } else {
                out.push(c);
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape(byte, out));
    }
}

fn escape(byte: u8, out: &mut String) {
    let _ = write!(out, "\\x{byte:02x}"); // writing to a String cannot fail
}

/// Returns the length of `line` without an incomplete character at its end.
fn whole_characters(line: &[u8]) -> usize {
    let tail = line.len().saturating_sub(3);
    match line[tail..].iter().rposition(|&byte| byte >= 0xc0) {
        Some(at) => {
            let need = match line[tail + at] {
                0xf0.. => 4,
                0xe0.. => 3,
                _ => 2,
            };
            if tail + at + need > line.len() {
                tail + at
            } else {
                line.len()
            }
        }
        None => line.len(),
    }
}

const LINE_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    fn logged(pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let clock = Cell::new(22_500_123_999);
        let mut log = LogWriter::new(&mut out, || {
            let now = clock.get();
            clock.set(now + 1_000_000_000);
            Instant::from_ns(now)
        });
        pieces
            .iter()
            .for_each(|piece| log.write_all(piece).unwrap());
        drop(log);
        String::from_utf8(out).expect("the log is text")
    }

    #[test]
    fn a_line_has_the_time_of_its_first_byte() {
        assert_eq!(
            logged(&[b"he", b"llo\r\n\nno", b" end"]),
            "[   22.500123] hello\n[   23.500123] \n[   24.500123] no end\n"
        );
    }

    #[test]
    fn junk_is_shown_and_not_obeyed() {
        assert_eq!(
            logged(
                b"\x1b[2Ja\xff\0\tb\xc3\xbc\n"
                    .chunks(1)
                    .collect::<Vec<_>>()
                    .as_slice()
            ),
            "[   22.500123] \\x1b[2Ja\\xff\\x00\tbü\n"
        );
    }

    #[test]
    fn a_line_without_end_is_broken_between_characters() {
        let text = "x".to_owned() + &"€".repeat(LINE_BYTES);
        let log = logged(&[text.as_bytes(), b"\n"]);
        assert!(
            log.lines().all(|line| line.len() <= LINE_BYTES + 20),
            "a line is too long"
        );
        let joined: String = log
            .lines()
            .map(|line| line[15..].trim_start_matches("… "))
            .collect();
        assert_eq!(joined, text);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_make_the_same_text(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 1usize..50) {
            let in_pieces = logged(&bytes.chunks(cut).collect::<Vec<_>>());
            prop_assert!(in_pieces.lines().all(|line| line.starts_with("[   ")));
            let strip = |log: &str| log.lines().map(|line| line[14..].to_owned()).collect::<Vec<_>>();
            prop_assert_eq!(strip(&in_pieces), strip(&logged(&[&bytes])));
        }
    }
}
