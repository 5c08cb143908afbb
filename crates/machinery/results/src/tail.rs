//! Reading of a run's tables while it goes on: the rows that have been written since the last time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::directory::journal_name;
use crate::journal::{LINE_BYTES, parse};
use crate::table::{Interner, Row};
use crate::tree::Tree;
use crate::{ResultsError, RunDirectory};

/// Reader of the journal of one table. It continues to the last row when the run ends meanwhile and
/// its journal is removed.
pub struct Tail<R> {
    tree: Tree,
    name: String,
    reader: Option<BufReader<File>>,
    /// Beginning of an incomplete line.
    begun: Vec<u8>,
    interner: Interner,
    row: PhantomData<fn() -> R>,
}

impl<R: Row> Tail<R> {
    /// Calls `each` for the rows that were written since the last call, at most `most` of them.
    /// Returns true if there may be more now. Invalid lines are skipped.
    ///
    /// # Errors
    /// Fails if the journal is not a regular file, or cannot be read.
    pub fn read(&mut self, most: usize, mut each: impl FnMut(R)) -> Result<bool, ResultsError> {
        if self.reader.is_none() {
            self.reader = self.tree.read(&self.name)?.map(BufReader::new);
        }
        let Some(reader) = &mut self.reader else {
            return Ok(false);
        };
        for _ in 0..most {
            let left = LINE_BYTES.saturating_sub(self.begun.len() as u64);
            let read = reader.take(left).read_until(b'\n', &mut self.begun);
            read.map_err(ResultsError::io(&self.tree.path_of(&self.name)))?;
            let is_whole = self.begun.last() == Some(&b'\n');
            if !is_whole && (self.begun.len() as u64) < LINE_BYTES {
                return Ok(false);
            }
            if let Some(row) = parse::<R>(&self.begun, &mut self.interner) {
                each(row);
            }
            self.begun.clear();
        }
        Ok(true)
    }
}

impl<R> Tail<R> {
    /// Returns true if there was no journal yet.
    pub fn is_unused(&self) -> bool {
        self.reader.is_none()
    }
}

impl RunDirectory {
    /// Returns a reader of a table's rows as they are written. A run that is finished has no
    /// journal, and thus no rows here.
    pub fn tail<R: Row>(&self) -> Tail<R> {
        Tail {
            tree: self.tree.clone(),
            name: journal_name(R::TABLE),
            reader: None,
            begun: Vec::new(),
            interner: Interner::default(),
            row: PhantomData,
        }
    }

    /// Calls `each` for the first rows of a table, at most `most` of them, like
    /// [`Self::for_each`], until it breaks. Returns false if there are more.
    ///
    /// # Errors
    /// Fails under the same conditions.
    pub fn for_first<R: Row>(
        &self,
        most: u64,
        mut each: impl FnMut(R) -> ControlFlow<()>,
    ) -> Result<bool, ResultsError> {
        let mut count = 0;
        let mut is_cut = false;
        let read = self.for_each(|row: R| {
            count += 1;
            is_cut = count > most || each(row).is_break();
            match is_cut {
                // Ends the reading; replaced below.
                true => Err(ResultsError::Finished(self.tree.path().to_owned())),
                false => Ok(()),
            }
        });
        match read {
            Err(ResultsError::Finished(_)) if is_cut => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Returns true if the directory at `path` is this one.
    pub fn is_at(&self, path: &Path) -> bool {
        let (Ok(ours), Ok(theirs)) = (self.tree.identity(), std::fs::metadata(path)) else {
            return false;
        };
        ours == (theirs.dev(), theirs.ino())
    }
}

impl<R> std::fmt::Debug for Tail<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail").field("name", &self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventRow;
    use std::io::Write as _;
    use timeloom_time::Instant;

    fn event(number: i64) -> EventRow {
        EventRow {
            t_virtual: Instant::from_ns(number),
            t_wall: Instant::ZERO,
            host: "h".into(),
            source: "s".into(),
            kind: "k".into(),
            text: "t".into(),
        }
    }

    #[test]
    fn rows_are_read_once_and_to_the_end() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("run");
        let run = RunDirectory::create(&path).expect("it can be made");
        let recorder = run.recorder().expect("the first one");
        let mut tail = run.tail::<EventRow>();
        let mut seen = Vec::new();
        let mut look = |tail: &mut Tail<EventRow>, most| {
            seen.clear();
            let more = tail.read(most, |row| seen.push(row.t_virtual.as_ns()));
            (seen.clone(), more.expect("it can be read"))
        };
        assert_eq!(look(&mut tail, 9), (vec![], false));
        for number in 0..3 {
            recorder.event(&event(number)).expect("there is room");
        }
        assert_eq!(look(&mut tail, 2), (vec![0, 1], true));
        assert_eq!(look(&mut tail, 2), (vec![2], false));
        // A torn line is no row until it is complete.
        let torn = File::options()
            .append(true)
            .open(path.join("journal/events.jsonl"));
        let mut torn = torn.expect("it is there");
        write!(torn, "[3,0,\"h\",\"s\",").expect("there is room");
        assert_eq!(look(&mut tail, 9), (vec![], false));
        writeln!(torn, "\"k\",\"t\"]\nno row\n").expect("there is room");
        assert_eq!(look(&mut tail, 9), (vec![3], false));
        recorder.event(&event(4)).expect("there is room");
        recorder.finish().expect("there is room");
        assert!(!path.join("journal").exists());
        assert_eq!(look(&mut tail, 9), (vec![4], false));
        let mut first = Vec::new();
        let all = run.for_first(2, |row: EventRow| {
            first.push(row.t_virtual.as_ns());
            ControlFlow::Continue(())
        });
        assert!(!all.expect("it can be read"));
        assert_eq!(first, [0, 1]);
        let all = run.for_first(5, |_: EventRow| ControlFlow::Continue(()));
        assert!(all.expect("it can be read"));
        let mut count = 0;
        let broken = run.for_first(5, |_: EventRow| {
            count += 1;
            ControlFlow::Break(())
        });
        assert!(!broken.expect("it can be read") && count == 1);
        assert!(run.is_at(&path) && !run.is_at(place.path()));
    }
}
