//! Log with a size limit, because a program's output may be unbounded and the disk is not.
//!
//! At the limit, a line in the log says so. Further bytes are counted and discarded.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of discarded bytes. Clones share the counter, so that it can be reported at the end.
#[derive(Clone, Debug, Default)]
pub struct DiscardedBytes(Arc<AtomicU64>);

impl DiscardedBytes {
    /// Returns the number of bytes discarded so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Writer that passes on bytes up to a limit.
#[derive(Debug)]
pub struct LimitedWriter<W> {
    writer: W,
    limit: u64,
    left: u64,
    is_over: bool,
    /// True if the last byte that was passed on ended a line.
    at_line: bool,
    left_out: DiscardedBytes,
}

impl<W: Write> LimitedWriter<W> {
    /// Creates a writer that passes on at most `limit` bytes, and then one line that reports the
    /// limit.
    pub fn new(writer: W, limit: u64) -> Self {
        Self {
            writer,
            limit,
            left: limit,
            is_over: false,
            at_line: true,
            left_out: DiscardedBytes::default(),
        }
    }

    /// Returns the counter of discarded bytes.
    pub fn left_out(&self) -> DiscardedBytes {
        self.left_out.clone()
    }

    fn end(&mut self) -> io::Result<()> {
        self.is_over = true;
        let before = if self.at_line { "" } else { "\n" };
        let marker = format!("{before}{}\n", Marker(self.limit));
        self.writer.write_all(marker.as_bytes())
    }
}

impl<W: Write> Write for LimitedWriter<W> {
    /// Accepts all bytes, even if it discards some of them, or fails without accepting any.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole = bytes.len() as u64;
        let mut kept = 0;
        if !self.is_over {
            let room = self.left.min(whole) as usize;
            // If the bytes exceed the limit, only whole lines are kept. A line that began earlier,
            // or has no end yet, is cut at the limit.
            kept = match bytes[..room].iter().rposition(|byte| *byte == b'\n') {
                _ if room == bytes.len() => room,
                Some(end) => end + 1,
                None if self.at_line && bytes.contains(&b'\n') => 0,
                None => room,
            };
            self.writer.write_all(&bytes[..kept])?;
            self.left -= kept as u64;
            if kept > 0 {
                self.at_line = bytes[kept - 1] == b'\n';
            }
            if kept < bytes.len() {
                self.end()?;
            }
        }
        let out = whole - kept as u64;
        self.left_out.0.fetch_add(out, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

struct Marker(u64);

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[timeloom: the limit of {} bytes is reached; what follows is counted in manifest.json and not kept]",
            self.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(limit: u64, pieces: &[&str]) -> (String, u64) {
        let mut log = LimitedWriter::new(Vec::new(), limit);
        for piece in pieces {
            log.write_all(piece.as_bytes()).expect("a Vec takes all");
        }
        let text = String::from_utf8(log.writer.clone()).expect("text");
        (text, log.left_out().bytes())
    }

    #[test]
    fn text_within_the_limit_is_kept_unchanged() {
        assert_eq!(written(8, &["one\n", "two\n"]), ("one\ntwo\n".into(), 0));
    }

    #[test]
    fn text_beyond_the_limit_is_marked_once_and_counted() {
        let marker = format!("{}\n", Marker(9));
        let pieces = ["one\n", "two\nthree\n", "four\n", "five\n"];
        let (text, out) = written(9, &pieces);
        assert_eq!(text, format!("one\ntwo\n{marker}"));
        assert_eq!(out, 6 + 5 + 5);
        assert_eq!(
            written(9, &["one\n", "second\n"]).0,
            format!("one\n{marker}")
        );
        let (text, out) = written(9, &["a line without an end"]);
        assert_eq!(text, format!("a line wi\n{marker}"));
        assert_eq!(out, 12);
    }
}
