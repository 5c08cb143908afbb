//! Logs of a run as one stream of lines, ordered by virtual time, which also works during the run.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader};

use timeloom_time::{Instant, Virtual};

use crate::lines::read_line;
use crate::{ResultsError, RunDirectory};

/// A line of a program's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Virtual instant of the line. A line without a timestamp, in a plant's log, has that of the
    /// previous line.
    pub at: Instant<Virtual>,
    /// Name of the log.
    pub program: String,
    /// Line of the log, with its timestamp.
    pub text: String,
}

impl LogLine {
    /// Returns the line without its timestamp.
    pub fn printed(&self) -> &str {
        split(&self.text).map_or(&self.text, |(_, printed)| printed)
    }
}

/// Reader of the logs of a run.
#[derive(Debug)]
pub struct MergedLogs {
    run: RunDirectory,
    /// Names of the programs to read. `None` selects all programs, but no plants, whose lines have
    /// no timestamps.
    programs: Option<BTreeSet<String>>,
    sources: Vec<Source>,
    /// True if nothing more is written, so that a last line without newline is complete.
    is_complete: bool,
}

impl MergedLogs {
    /// Creates a reader for the run directory `run`. If `programs` is empty, it reads all programs.
    pub fn new(run: &RunDirectory, programs: &[String]) -> Self {
        let programs: BTreeSet<String> = programs.iter().cloned().collect();
        Self {
            run: run.clone(),
            programs: Some(programs).filter(|programs| !programs.is_empty()),
            sources: Vec::new(),
            is_complete: false,
        }
    }

    /// Returns the names of the existing logs, sorted.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, ResultsError> {
        self.run.log_names()
    }

    /// Declares that nothing more is written to the logs.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Returns the next line, which is the earliest one available. Lines of the same instant are
    /// ordered by program name. Returns `None` if no complete line is available now.
    ///
    /// # Errors
    /// Fails if a log cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<LogLine>> {
        for source in &mut self.sources {
            source.fill(self.is_complete)?;
        }
        let heads = self.sources.iter().enumerate();
        let heads = heads.filter_map(|(at, source)| Some((source.head.as_ref()?.at, at)));
        let first = heads.min();
        Ok(first.and_then(|(_, at)| self.sources[at].head.take()))
    }

    /// Looks for logs of programs that have started since the last look.
    ///
    /// # Errors
    /// Fails if the directory, or one of the logs, cannot be opened.
    pub fn look(&mut self) -> Result<(), ResultsError> {
        for name in self.names()? {
            let wanted = match &self.programs {
                Some(programs) => programs.contains(&name),
                None => !name.starts_with(PLANT),
            };
            let known = self.sources.iter().any(|source| source.name == name);
            if wanted && !known {
                let file = self.run.open_log(&name)?;
                self.sources.push(Source::new(name, file));
            }
        }
        self.sources.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }
}

/// Log of one program, while it is read.
#[derive(Debug)]
struct Source {
    name: String,
    reader: BufReader<File>,
    /// Beginning of a line whose end has not been read yet.
    begun: Vec<u8>,
    last: Instant<Virtual>,
    head: Option<LogLine>,
}

impl Source {
    fn new(name: String, file: File) -> Self {
        Self {
            name,
            reader: BufReader::new(file),
            begun: Vec::new(),
            last: Instant::ZERO,
            head: None,
        }
    }

    fn fill(&mut self, is_complete: bool) -> io::Result<()> {
        if self.head.is_some() {
            return Ok(());
        }
        let is_whole = read_line(&mut self.reader, &mut self.begun)?;
        let is_last = is_complete && !self.begun.is_empty();
        if !is_whole && !is_last {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&self.begun);
        let text = line.trim_end_matches('\n').to_owned();
        self.begun.clear();
        if let Some((at, _)) = split(&text) {
            self.last = at;
        }
        self.head = Some(LogLine {
            at: self.last,
            program: self.name.clone(),
            text,
        });
        Ok(())
    }
}

/// Splits a line such as `[   22.500123] text` into instant and text.
fn split(line: &str) -> Option<(Instant<Virtual>, &str)> {
    let (stamp, text) = line.strip_prefix('[')?.split_once("] ")?;
    let (seconds, micros) = stamp.trim_start().split_once('.')?;
    let (seconds, micros): (i64, i64) = (seconds.parse().ok()?, micros.parse().ok()?);
    let ns = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    Some((Instant::from_ns(ns.checked_mul(1000)?), text))
}

/// Prefix of the names of plants' logs.
const PLANT: &str = "plant-";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(logs: &mut MergedLogs) -> Vec<String> {
        let lines = std::iter::from_fn(|| logs.next_line().expect("it can be read"));
        lines
            .map(|line| format!("{} {}", line.program, line.printed()))
            .collect()
    }

    #[test]
    fn lines_come_by_their_instants_and_when_they_are_whole() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let logs = place.path().join("run/logs");
        let run = RunDirectory::create(place.path().join("run")).expect("it can be made");
        let write = |name: &str, text: &str| {
            let file = File::options()
                .append(true)
                .create(true)
                .open(logs.join(name));
            write!(file.expect("it can be opened"), "{text}").expect("it can be written");
        };
        write("b.log", "[    0.000001] one\n[   10.500000] four\n");
        write("a.log", "[    0.000002] two\nno stamp\n[   11.0");
        write("plant-p.log", "hello\n");
        write("a.log.1", "[    0.000000] something else\n");
        let mut merged = MergedLogs::new(&run, &[]);
        merged.look().expect("the directory is there");
        let early = ["b one", "a two", "a no stamp", "b four"];
        assert_eq!(all(&mut merged), early);
        // Three writes: one begins a line, one continues it, and one ends it without a newline.
        write("a.log", "00000] five\n");
        write("c.log", "[   12.000000] six");
        merged.look().expect("the directory is there");
        assert_eq!(all(&mut merged), ["a five"]);
        merged.complete();
        assert_eq!(all(&mut merged), ["c six"]);
        assert_eq!(merged.names().expect("it is there").len(), 4);

        let mut one = MergedLogs::new(&run, &["plant-p".into()]);
        one.look().expect("the directory is there");
        assert_eq!(all(&mut one), ["plant-p hello"]);
    }
}
