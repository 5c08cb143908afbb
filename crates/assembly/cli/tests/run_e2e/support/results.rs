//! Data that the tests read from a run directory.

use std::fs;
use std::path::Path;

use timeloom_results::{ClockAction, ClockRow};

/// Returns the lines that a program printed, with the virtual time of their timestamps in
/// microseconds.
pub(crate) fn log_lines(run: &Path, program: &str) -> Vec<(i64, String)> {
    let path = run.join("logs").join(format!("{program}.log"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parse = |line: &str| {
        let (stamp, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let (seconds, micros) = stamp.trim().split_once('.')?;
        let us = seconds.parse::<i64>().ok()? * 1_000_000 + micros.parse::<i64>().ok()?;
        Some((us, rest.to_owned()))
    };
    // While the program runs, the last line may be incomplete.
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    let whole = &text[..end];
    whole
        .lines()
        .map(|line| parse(line).unwrap_or_else(|| panic!("a line without a stamp: {line}")))
        .collect()
}

/// Request of `poll.py`; all times are in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Reading of the client's clock before the request, since the start of the run.
    pub(crate) before: i64,
    /// Reading of the client's clock after the request.
    pub(crate) after: i64,
    /// Virtual time that the plant reported as its own.
    pub(crate) plant: i64,
    /// Duration of the request by the client's monotonic clock.
    pub(crate) lasted: i64,
}

/// Returns the samples that `poll.py` printed.
pub(crate) fn samples(run: &Path, program: &str) -> Vec<Sample> {
    let number = |words: &[&str], at: usize| words[at].parse().expect("a number");
    log_lines(run, program)
        .iter()
        .filter_map(|(_, line)| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0] == "sample").then(|| Sample {
                before: number(&words, 1),
                after: number(&words, 2),
                plant: number(&words, 3),
                lasted: number(&words, 4),
            })
        })
        .collect()
}

/// Pause of the testbed, from the rows of `clock.parquet`.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    /// Rows of the edge that stopped the testbed, of the holds and releases, and of the edge that
    /// resumed the testbed, in the order of recording.
    pub(crate) rows: Vec<ClockRow>,
    /// Maximum number of simultaneous holds.
    pub(crate) most_holds: usize,
    /// Number of holds when the testbed resumed, which must be 0.
    pub(crate) holds_at_end: usize,
    /// True if the testbed resumed. At the end of a run it does not.
    pub(crate) ended: bool,
}

impl Stand {
    /// Returns lower and upper bound of the wall time of the pause, in ns. The exact instants at
    /// which the clock stopped and resumed are within the edges.
    pub(crate) fn lasted(&self) -> (i64, i64) {
        let (first, last) = (&self.rows[0], &self.rows[self.rows.len() - 1]);
        let inner = (last.t_wall - last.duration) - first.t_wall;
        let outer = last.t_wall - (first.t_wall - first.duration);
        (inner.as_ns(), outer.as_ns())
    }

    /// Returns the names of the participants that held the pause.
    pub(crate) fn requesters(&self) -> std::collections::BTreeSet<String> {
        let holds = self
            .rows
            .iter()
            .filter(|row| row.action == ClockAction::Pause);
        holds.map(|row| row.requester.to_string()).collect()
    }
}

/// Returns the pauses of a run, in order. Fails if the rows contradict each other.
pub(crate) fn stands(rows: &[ClockRow]) -> Vec<Stand> {
    let mut stands: Vec<Stand> = Vec::new();
    for row in rows {
        let word = row.action.as_str();
        if word == "start" || word == "end" {
            continue;
        }
        let open = stands.last_mut().filter(|stand| !stand.ended);
        match (word, open) {
            ("stop", None) => stands.push(Stand {
                rows: vec![row.clone()],
                most_holds: 0,
                holds_at_end: 0,
                ended: false,
            }),
            ("pause" | "resume" | "go", Some(stand)) => {
                stand.rows.push(row.clone());
                match word {
                    "pause" => stand.holds_at_end += 1,
                    "resume" => stand.holds_at_end -= 1,
                    _ => stand.ended = true,
                }
                stand.most_holds = stand.most_holds.max(stand.holds_at_end);
            }
            (word, open) => panic!(
                "`{word}` while the testbed {}",
                if open.is_some() { "stands" } else { "runs" }
            ),
        }
    }
    stands
}
