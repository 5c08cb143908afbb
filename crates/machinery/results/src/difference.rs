//! Search for the first difference between two runs, by virtual time, for `timeloom run --verify`.
//!
//! The comparison covers effects of the scenario: signals, events, and the times of output lines.
//! It excludes effects of the machine: wall times, packets with their checksums and ports, and the
//! load of the network's thread. The *text* of output lines is compared separately, because it
//! often contains effects of the machine, such as the port of a connection or a process ID.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;

use serde::Serialize;
use timeloom_time::{Instant, Virtual};

use crate::lines::read_line;
use crate::{EventRow, ResultsError, RunDirectory, SignalRow};

/// First row that only one of the runs has, or that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name of the file in the run directory, without its extension, such as `signals`.
    pub file: String,
    /// Source of the row: a signal such as `grid.v680`, or a program.
    pub of: String,
    /// Virtual instant of the difference in nanoseconds; the earlier one if the rows have different
    /// instants.
    pub at_ns: i64,
    /// Row of the first run at that position; `None` if there is none.
    pub first: Option<String>,
    /// Row of the second run at that position; `None` if there is none.
    pub second: Option<String>,
}

/// A row: its virtual instant in nanoseconds, and its content.
type Entry = (i64, Cow<'static, str>);

/// Rows by file and source.
type Rows = BTreeMap<(String, String), Vec<Entry>>;

/// Result of comparing two runs of one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// First difference; `None` if the runs agree.
    pub difference: Option<Difference>,
    /// First output line whose text or time differs; `None` if all are equal.
    pub text: Option<Difference>,
}

/// Compares two runs of one scenario.
///
/// # Errors
/// Fails if a run directory cannot be read.
pub fn compare_runs(
    first: &RunDirectory,
    second: &RunDirectory,
) -> Result<Comparison, ResultsError> {
    let text = compare_texts(first, second)?;
    let (first, second) = (rows_of(first)?, rows_of(second)?);
    Ok(Comparison {
        difference: compare(&first, &second),
        text,
    })
}

fn compare(first: &Rows, second: &Rows) -> Option<Difference> {
    let none = Vec::new();
    let keys = first.keys().chain(second.keys());
    earliest(keys.filter_map(|key| {
        let one = first.get(key).unwrap_or(&none);
        let other = second.get(key).unwrap_or(&none);
        let length = one.len().max(other.len());
        let index = (0..length).find(|&index| one.get(index) != other.get(index))?;
        difference(key, [one.get(index), other.get(index)])
    }))
}

/// Returns the first difference, by virtual time, between the logs of the two runs. Each pair of
/// logs is read line by line, since logs may be long.
fn compare_texts(
    first: &RunDirectory,
    second: &RunDirectory,
) -> Result<Option<Difference>, ResultsError> {
    let (in_first, in_second) = (first.log_names()?, second.log_names()?);
    let all: BTreeSet<&String> = in_first.iter().chain(&in_second).collect();
    let mut found = Vec::new();
    for name in all {
        let lines = |run: &RunDirectory, names: &[String]| match names.contains(name) {
            true => LogLines::open(run, name).map(Some),
            false => Ok(None),
        };
        let mut one = lines(first, &in_first)?;
        let mut other = lines(second, &in_second)?;
        let next = |lines: &mut Option<LogLines>| match lines {
            Some(lines) => lines.next(),
            None => Ok(None),
        };
        loop {
            let rows = [next(&mut one)?, next(&mut other)?];
            if rows == [None, None] {
                break;
            }
            if rows[0] != rows[1] {
                let key = (TEXTS.to_owned(), name.clone());
                found.extend(difference(&key, [rows[0].as_ref(), rows[1].as_ref()]));
                break;
            }
        }
    }
    Ok(earliest(found.into_iter()))
}

/// Name that stands for the file in a difference between output lines.
const TEXTS: &str = "texts";

/// Returns the difference between two rows at one position, if there is one.
fn difference(key: &(String, String), rows: [Option<&Entry>; 2]) -> Option<Difference> {
    let at_ns = rows.iter().flatten().map(|(at_ns, _)| *at_ns).min()?;
    let shown = |row: &Entry| match row.0 == at_ns {
        true => row.1.clone().into_owned(),
        false => format!(
            "{} at {} s",
            row.1,
            Instant::<Virtual>::from_ns(row.0).as_ns() as f64 / 1e9
        ),
    };
    Some(Difference {
        file: key.0.clone(),
        of: key.1.clone(),
        at_ns,
        first: rows[0].map(shown),
        second: rows[1].map(shown),
    })
}

fn earliest(all: impl Iterator<Item = Difference>) -> Option<Difference> {
    all.min_by(|a, b| (a.at_ns, &a.file, &a.of).cmp(&(b.at_ns, &b.file, &b.of)))
}

/// Iterator over the lines of a log; removes the run directory's own path from them.
struct LogLines {
    reader: BufReader<std::fs::File>,
    log: String,
    /// Path of the run directory as it may occur in the lines.
    own: Option<String>,
    line: Vec<u8>,
}

impl LogLines {
    fn open(run: &RunDirectory, name: &str) -> Result<Self, ResultsError> {
        Ok(Self {
            reader: BufReader::new(run.open_log(name)?),
            log: format!("{}/logs/{name}.log", run.shown()),
            own: own_path(run),
            line: Vec::new(),
        })
    }

    fn next(&mut self) -> Result<Option<Entry>, ResultsError> {
        self.line.clear();
        read_line(&mut self.reader, &mut self.line)
            .map_err(|error| ResultsError::io(self.log.as_ref())(error))?;
        if self.line.is_empty() {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end_matches('\n').trim_end_matches('\r');
        let (at_ns, text) = log_row(&placeless(line, self.own.as_deref()));
        Ok(Some((at_ns, text.into())))
    }
}

fn rows_of(run: &RunDirectory) -> Result<Rows, ResultsError> {
    let mut rows = Rows::new();
    run.for_each(|row: SignalRow| {
        // Packets between the engines depend on the division of the network among them.
        if &*row.source == "net" && row.name.starts_with("cut.") {
            return Ok(());
        }
        let of = format!("{}.{}", row.source, row.name);
        let value = format!("{} {}", row.value, row.unit).trim_end().to_owned();
        let series = rows.entry(("signals".into(), of)).or_default();
        series.push((row.t_virtual.as_ns(), value.into()));
        Ok(())
    })?;
    let own = own_path(run);
    run.for_each(|row: EventRow| {
        if !is_of_the_machine(&row) {
            let events = rows
                .entry(("events".into(), row.source.to_string()))
                .or_default();
            let text = placeless(&row.text, own.as_deref());
            let text = format!("{}: {text}", row.kind);
            events.push((row.t_virtual.as_ns(), text.into()));
        }
        Ok(())
    })?;
    for name in run.log_names()? {
        let mut lines = LogLines::open(run, &name)?;
        let series = rows.entry(("logs".into(), name)).or_default();
        while let Some((at_ns, _)) = lines.next()? {
            series.push((at_ns, "a line".into()));
        }
    }
    // Rows that several threads recorded at the same instant have no defined order.
    rows.values_mut().for_each(|rows| rows.sort());
    Ok(rows)
}

/// Returns the text without the run directory's own path, which differs between runs.
fn placeless<'a>(text: &'a str, own: Option<&str>) -> Cow<'a, str> {
    match own {
        Some(path) => text.replace(path, "RUN").into(),
        None => text.into(),
    }
}

/// Returns the path of the run directory as programs get it in arguments and print it. The path
/// differs between two runs.
fn own_path(run: &RunDirectory) -> Option<String> {
    let whole = std::path::absolute(run.tree.path()).ok()?;
    Some(whole.to_string_lossy().into_owned())
}

/// Returns true for rows about the machines: their load, which differs in each run, and the
/// division of the run among them.
fn is_of_the_machine(row: &EventRow) -> bool {
    matches!(
        (&*row.source, &*row.kind),
        ("timeloom", "order" | "untrusted")
            | ("network", "summary" | "cut" | "untrusted")
            | (_, "tunnel")
    )
}

/// Splits a line such as `[  0.100000] text` into time and text.
fn log_row(line: &str) -> (i64, String) {
    let parsed = line.strip_prefix('[').and_then(|rest| {
        let (stamp, text) = rest.split_once(']')?;
        let (whole, micros) = stamp.trim().split_once('.')?;
        let us = whole.parse::<i64>().ok()?.checked_mul(1_000_000)? + micros.parse::<i64>().ok()?;
        Some((us.checked_mul(1000)?, text.trim_start().to_owned()))
    });
    parsed.unwrap_or_else(|| (0, line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name of the file, source of the rows, and the rows with their times.
    type Series<'a> = (&'a str, &'a str, &'a [(i64, &'a str)]);

    fn rows(of: &[Series<'_>]) -> Rows {
        let own = |rows: &[(i64, &str)]| {
            rows.iter()
                .map(|(at, what)| (*at, (*what).to_owned().into()))
                .collect()
        };
        of.iter()
            .map(|(file, of, rows)| (((*file).to_owned(), (*of).to_owned()), own(rows)))
            .collect()
    }

    #[test]
    fn the_first_row_that_differs_is_found_by_virtual_time() {
        let one = rows(&[
            ("logs", "a", &[(5, "x"), (9, "y")]),
            ("signals", "grid.v", &[(1, "2.5 V"), (7, "3 V"), (8, "4 V")]),
        ]);
        assert_eq!(compare(&one, &one), None);
        let other = rows(&[
            ("logs", "a", &[(5, "x"), (9, "z")]),
            (
                "signals",
                "grid.v",
                &[(1, "2.5 V"), (7, "3.5 V"), (8, "5 V")],
            ),
        ]);
        let found = compare(&one, &other).expect("they differ");
        assert_eq!(
            (found.file.as_str(), found.of.as_str(), found.at_ns),
            ("signals", "grid.v", 7)
        );
        assert_eq!(found.first.as_deref(), Some("3 V"));
        assert_eq!(found.second.as_deref(), Some("3.5 V"));
    }

    #[test]
    fn a_row_that_only_one_run_has_is_a_difference() {
        let one = rows(&[("logs", "a", &[(5, "x")])]);
        let found = compare(&one, &rows(&[])).expect("they differ");
        assert_eq!(
            (found.at_ns, found.first.as_deref(), found.second),
            (5, Some("x"), None)
        );
    }

    #[test]
    fn a_line_of_a_log_has_its_instant() {
        assert_eq!(
            log_row("[   22.500123] text"),
            (22_500_123_000, "text".into())
        );
        assert_eq!(log_row("no stamp"), (0, "no stamp".into()));
    }
}
