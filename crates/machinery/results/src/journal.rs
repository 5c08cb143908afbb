//! Crash-safe form of a table while its run is in progress: one JSON array per line, append-only.
//!
//! A Parquet file ends with a footer, without which it is unreadable. In the journal each line is
//! either complete or not, so a run that is killed loses at most the line that was being written.
//! (The kernel's page cache outlives the process. Surviving a power failure is not attempted,
//! because it would cost an fsync per flush.)

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::time;

use serde_json::Value;

use crate::ResultsError;
use crate::table::{Cell, Cells, ColumnKind, Interner, Row};
use crate::tree::Tree;

/// Open journal of one table.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    writer: BufWriter<File>,
    /// Instant of the last flush. Wall time limits the loss by a kill, because it advances even
    /// while virtual time is stopped.
    flushed: time::Instant,
    max_age: time::Duration,
    /// Buffer for one row, reused to avoid allocations.
    line: Vec<u8>,
    /// True if the last row may be incomplete, so that no row may follow it.
    is_torn: bool,
}

impl Journal {
    /// Opens a journal for appending. The first row that is appended `max_age` or more after the
    /// previous flush is passed to the kernel, with all rows before it. If `max_age` is zero, each
    /// row is.
    pub(crate) fn open(
        tree: &Tree,
        name: &str,
        max_age: time::Duration,
    ) -> Result<Self, ResultsError> {
        let file = tree.append(name)?;
        Ok(Self {
            path: tree.path_of(name),
            writer: BufWriter::with_capacity(BUFFER_BYTES, file),
            flushed: time::Instant::now(),
            max_age,
            line: Vec::new(),
            is_torn: false,
        })
    }

    /// Appends a row and returns its length in bytes. An accepted row is in a buffer and reaches
    /// the file with the next [`Self::flush`] that succeeds. A full disk therefore loses no rows if
    /// there is space again later.
    pub(crate) fn append(&mut self, row: &impl Row) -> Result<u64, ResultsError> {
        if self.is_torn {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(ResultsError::io(&self.path)(full));
        }
        let mut cells = row.cells();
        cells.iter_mut().for_each(bound);
        self.line.clear();
        // The row is written at once, so that a buffer which cannot be flushed rejects it as a
        // whole.
        serde_json::to_writer(&mut self.line, &cells)
            .map_err(|error| ResultsError::io(&self.path)(std::io::Error::from(error)))?;
        self.line.push(b'\n');
        if let Err(error) = self.writer.write_all(&self.line) {
            self.is_torn = true;
            return Err(ResultsError::io(&self.path)(error));
        }
        if self.flushed.elapsed() >= self.max_age {
            self.flush()?;
        }
        Ok(self.line.len() as u64)
    }

    pub(crate) fn flush(&mut self) -> Result<(), ResultsError> {
        self.flushed = time::Instant::now();
        self.writer.flush().map_err(ResultsError::io(&self.path))
    }
}

/// Calls `each` for every complete row of the journal `name`, in the order of writing. Returns the
/// number of invalid lines, such as an incomplete last line. A missing journal has no rows.
pub(crate) fn read<R: Row>(
    tree: &Tree,
    name: &str,
    mut each: impl FnMut(R) -> Result<(), ResultsError>,
) -> Result<u64, ResultsError> {
    let Some(file) = tree.read(name)? else {
        return Ok(0);
    };
    let path = &tree.path_of(name);
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut interner = Interner::default();
    let mut line = Vec::new();
    let mut torn = 0;
    loop {
        line.clear();
        // The length is limited, because a file full of zeros must not be read as one line.
        let n = (&mut reader)
            .take(LINE_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(ResultsError::io(path))?;
        if n == 0 {
            return Ok(torn);
        }
        match parse::<R>(&line, &mut interner) {
            Some(row) => each(row)?,
            None => torn += 1,
        }
    }
}

/// Parses a row from its line. A line without its newline is torn even if it looks complete: `12`
/// may have been `123`.
pub(crate) fn parse<R: Row>(line: &[u8], interner: &mut Interner) -> Option<R> {
    let line = line.strip_suffix(b"\n")?;
    let values: Vec<Value> = serde_json::from_slice(line).ok()?;
    if values.len() != R::COLUMNS.len() {
        return None;
    }
    let cells = R::COLUMNS
        .iter()
        .zip(values)
        .map(|((_, kind), value)| match kind {
            ColumnKind::Int => value.as_i64().map(Cell::Int),
            ColumnKind::Real => value.as_f64().map(Cell::Real),
            ColumnKind::Text => value.as_str().map(|text| Cell::Text(interner.get(text))),
        });
    R::from_cells(Cells::new(cells.collect::<Option<_>>()?))
}

/// Truncates a text that is longer than any regular name or sentence, which limits the memory of a
/// row.
fn bound(cell: &mut Cell) {
    if let Cell::Text(text) = cell
        && text.len() > TEXT_BYTES
    {
        let end = (0..=TEXT_BYTES)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        *text = format!("{}…", &text[..end]).into();
    }
}

const BUFFER_BYTES: usize = 64 * 1024;
const TEXT_BYTES: usize = 32 * 1024;
/// Room for eight texts of maximum length, each byte escaped as `\u0000`.
pub(crate) const LINE_BYTES: u64 = 2 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventRow, SignalRow};
    use proptest::prelude::*;
    use timeloom_time::Instant;

    fn round_trip<R: Row>(rows: &[R]) -> (Vec<R>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let mut journal = Journal::open(&tree, "t.jsonl", time::Duration::from_secs(2)).unwrap();
        rows.iter().for_each(|row| {
            journal.append(row).unwrap();
        });
        drop(journal);
        let mut back = Vec::new();
        let torn = read(&tree, "t.jsonl", |row| {
            back.push(row);
            Ok(())
        })
        .unwrap();
        (back, torn)
    }

    proptest! {
        #[test]
        fn every_finite_double_and_text_survives_bit_for_bit(
            value in any::<f64>().prop_filter("finite", |v| v.is_finite()), t in any::<i64>(), name in ".*", unit in "\\PC*"
        ) {
            let row = SignalRow {
                t_virtual: Instant::from_ns(t), t_wall: Instant::from_ns(!t), host: "".into(), source: "a\n\"b".into(),
                name: name.into(), value, unit: unit.into(),
            };
            let (back, torn) = round_trip(&[row.clone(), row.clone()]);
            prop_assert_eq!(torn, 0);
            prop_assert_eq!(&back, &[row.clone(), row]);
            prop_assert_eq!(back[0].value.to_bits(), value.to_bits());
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = "x".to_owned() + &"ü".repeat(TEXT_BYTES);
        let row = EventRow {
            t_virtual: Instant::ZERO,
            t_wall: Instant::ZERO,
            host: "h".into(),
            source: "s".into(),
            kind: "k".into(),
            text: text.into(),
        };
        let (back, torn) = round_trip(&[row]);
        assert_eq!(torn, 0);
        assert!(back[0].text.len() <= TEXT_BYTES + 3 && back[0].text.ends_with('…'));
    }
}
