//! Where two runs differ first, by virtual time: what `timeloom run --verify` shows.
//!
//! Compared is what a scenario brings about: signals, events, and when programs print.
//! What the machine brings about is not: wall times, packets with their checksums and
//! ports, how busy the network's thread was. *What* programs print is compared apart from
//! the rest, for it often has such things in it: the port of a connection, a process.

use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;
use timeloom_time::{Instant, Virtual};

use crate::{EventRow, ResultsError, RunDirectory, SignalRow};

/// The first row that is not in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The file in the run directory, without what tells its format: `signals`.
    pub file: String,
    /// Whose row it is: `grid.v680`, or a program.
    pub of: String,
    /// Virtual nanoseconds, the earlier of both.
    pub at_ns: i64,
    /// What the first run has there, if it has something.
    pub first: Option<String>,
    /// What the second has.
    pub second: Option<String>,
}

/// Rows of one file and one source: when, and what.
type Rows = BTreeMap<(String, String), Vec<(i64, String)>>;

/// How two runs of one scenario compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Where they differ first; `None` when they agree.
    pub difference: Option<Difference>,
    /// The first printed line that has another text, or came at another instant.
    pub text: Option<Difference>,
}

/// Compares two runs of one scenario.
///
/// # Errors
/// One of them cannot be read.
pub fn compare_runs(
    first: &RunDirectory,
    second: &RunDirectory,
) -> Result<Comparison, ResultsError> {
    let (first, second) = (rows_of(first)?, rows_of(second)?);
    Ok(Comparison {
        difference: compare(&first, &second, |file| file != TEXTS),
        text: compare(&first, &second, |file| file == TEXTS),
    })
}

/// Under this name lines are compared with their text.
const TEXTS: &str = "texts";

fn compare(first: &Rows, second: &Rows, counts: impl Fn(&str) -> bool) -> Option<Difference> {
    let none = Vec::new();
    let keys = first.keys().chain(second.keys());
    let keys = keys.filter(|(file, _)| counts(file));
    keys.filter_map(|key| {
        let one = first.get(key).unwrap_or(&none);
        let other = second.get(key).unwrap_or(&none);
        let length = one.len().max(other.len());
        let index = (0..length).find(|&index| one.get(index) != other.get(index))?;
        let rows = [one.get(index), other.get(index)];
        let at_ns = rows.iter().flatten().map(|(at_ns, _)| *at_ns).min()?;
        let shown = |row: &(i64, String)| match row.0 == at_ns {
            true => row.1.clone(),
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
    })
    .min_by(|a, b| (a.at_ns, &a.file, &a.of).cmp(&(b.at_ns, &b.file, &b.of)))
}

fn rows_of(run: &RunDirectory) -> Result<Rows, ResultsError> {
    let mut rows = Rows::new();
    run.for_each(|row: SignalRow| {
        let of = format!("{}.{}", row.source, row.name);
        let value = format!("{} {}", row.value, row.unit).trim_end().to_owned();
        let series = rows.entry(("signals".into(), of)).or_default();
        series.push((row.t_virtual.as_ns(), value));
        Ok(())
    })?;
    let own = own_path(run);
    let placeless = |text: &str| match &own {
        Some(path) => text.replace(path, "RUN"),
        None => text.to_owned(),
    };
    run.for_each(|row: EventRow| {
        if !is_of_the_machine(&row) {
            let events = rows
                .entry(("events".into(), row.source.to_string()))
                .or_default();
            let text = placeless(&row.text);
            events.push((row.t_virtual.as_ns(), format!("{}: {text}", row.kind)));
        }
        Ok(())
    })?;
    let logs = run.path().join("logs");
    for entry in fs::read_dir(&logs).map_err(ResultsError::io(&logs))? {
        let path = entry.map_err(ResultsError::io(&logs))?.path();
        let text = fs::read_to_string(&path).map_err(ResultsError::io(&path))?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let lines: Vec<(i64, String)> = placeless(&text).lines().map(log_row).collect();
        let when = lines.iter().map(|(at_ns, _)| (*at_ns, "a line".into()));
        rows.insert(("logs".into(), name.clone()), when.collect());
        rows.insert((TEXTS.into(), name), lines);
    }
    // What several threads record at one instant is in no order.
    rows.iter_mut()
        .filter(|((file, _), _)| file != TEXTS)
        .for_each(|(_, rows)| rows.sort());
    Ok(rows)
}

/// What a run directory is called in what programs are told and print: two runs have two.
fn own_path(run: &RunDirectory) -> Option<String> {
    let whole = std::path::absolute(run.path()).ok()?;
    Some(whole.to_string_lossy().into_owned())
}

/// How busy the machine was is another matter in each run.
fn is_of_the_machine(row: &EventRow) -> bool {
    matches!(
        (&*row.source, &*row.kind),
        ("timeloom", "order") | ("network", "summary" | "untrusted")
    )
}

/// `[  0.100000] text`
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

    /// A file, whose rows they are, and the rows with their instants.
    type Series<'a> = (&'a str, &'a str, &'a [(i64, &'a str)]);

    fn rows(of: &[Series<'_>]) -> Rows {
        let own = |rows: &[(i64, &str)]| {
            rows.iter()
                .map(|(at, what)| (*at, (*what).to_owned()))
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
        assert_eq!(compare(&one, &one, |_| true), None);
        let other = rows(&[
            ("logs", "a", &[(5, "x"), (9, "z")]),
            (
                "signals",
                "grid.v",
                &[(1, "2.5 V"), (7, "3.5 V"), (8, "5 V")],
            ),
        ]);
        let found = compare(&one, &other, |_| true).expect("they differ");
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
        let found = compare(&one, &rows(&[]), |_| true).expect("they differ");
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
