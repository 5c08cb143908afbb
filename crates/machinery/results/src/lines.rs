//! Reading of lines from untrusted files, whose lines may have any length.

use std::io::{self, BufRead, Read as _};

/// Reads the rest of a line and appends it to `line`, which may hold its beginning. Returns
/// true when the line is complete, including its newline. A line longer than any that Timeloom
/// writes is split, so that a file without newlines does not fill the memory.
pub(crate) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let left = LINE_BYTES.saturating_sub(line.len());
    reader.take(left as u64).read_until(b'\n', line)?;
    Ok(line.last() == Some(&b'\n') || line.len() >= LINE_BYTES)
}

/// Maximum length of a line in bytes. A log line has a timestamp and at most 8 KiB, each byte of
/// which may be escaped as four.
pub(crate) const LINE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_parted() {
        let text = [vec![0; LINE_BYTES + 7], b"\nx".to_vec()].concat();
        let mut reader = &text[..];
        let mut lengths = Vec::new();
        let mut line = Vec::new();
        while read_line(&mut reader, &mut line).expect("memory can be read") {
            lengths.push(line.len());
            line.clear();
        }
        assert_eq!(lengths, [LINE_BYTES, 8]);
        assert_eq!(line, b"x");
    }
}
