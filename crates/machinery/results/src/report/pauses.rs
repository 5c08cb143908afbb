//! Requesters that held the clock, with the numbers and durations of their holds, and the progress
//! of virtual time against wall time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use timeloom_time::{Duration, Instant, Wall};

use super::data::seconds;
use super::outline::{Lengths, Outline, Weights};
use crate::{ClockAction, ClockRow, ResultsError, RunDirectory};

/// Summary of a run's clock for the report, in bounded memory.
#[derive(Default)]
pub(super) struct ClockStory {
    /// True if the run recorded no change of the clock.
    pub(super) is_empty: bool,
    /// Instant of the last change, in seconds of virtual time.
    pub(super) end_s: Option<f64>,
    /// Points (wall, virtual) in seconds since the first point. Only changes recorded by one host
    /// are used, because the hosts' wall clocks have no common zero.
    pub(super) progress: Vec<(f64, f64)>,
    /// Requesters, sorted by the total duration of their holds, the longest first.
    pub(super) requesters: Vec<Requester>,
}

impl ClockStory {
    /// Reads the clock's table in one pass.
    pub(super) fn load(directory: &RunDirectory) -> Result<Self, ResultsError> {
        let mut holds = Holds::default();
        let mut first: Option<(Arc<str>, Instant<Wall>)> = None;
        let mut progress = Outline::default();
        let mut end_s: Option<f64> = None;
        directory.for_each(|row: ClockRow| {
            let at_s = seconds(row.t_virtual);
            end_s = Some(end_s.map_or(at_s, |end_s| end_s.max(at_s)));
            let (host, from) = first.get_or_insert_with(|| (row.host.clone(), row.t_wall));
            if row.host == *host {
                progress.push((row.t_wall - *from).as_s_f64(), at_s);
            }
            holds.take(row);
            Ok(())
        })?;
        Ok(Self {
            is_empty: first.is_none(),
            end_s,
            progress: progress.into_points(),
            requesters: holds.into_requesters(),
        })
    }
}

/// Holds of one requester, with statistics.
pub(super) struct Requester {
    pub(super) name: Arc<str>,
    pub(super) count: usize,
    /// Virtual instants at which the clock was stopped, with the wall time of the hold, both in
    /// nanoseconds. Never empty.
    pub(super) holds: Vec<(i64, i64)>,
    pub(super) total: Duration,
    pub(super) median: Duration,
    pub(super) p95: Duration,
    pub(super) max: Duration,
}

/// Pairing of each pause with its resume. Rows of several hosts about the same change have the same
/// number, and count once. The duration of a hold is the one that the resume states, or else the
/// wall time between pause and resume. (The duration that a pause states is the time needed to stop
/// the programs.) The pause that ends a run is not counted, because no time follows it.
#[derive(Default)]
struct Holds {
    seen: Recent,
    pending: HashMap<Arc<str>, ClockRow>,
    by_requester: HashMap<Arc<str>, Held>,
}

/// Holds of one requester, which do not overlap.
#[derive(Default)]
struct Held {
    when: Weights,
    lengths: Lengths,
    total: i64,
}

impl Holds {
    fn take(&mut self, row: ClockRow) {
        let action = match row.action {
            ClockAction::Pause => "pause",
            ClockAction::Resume => "resume",
            ClockAction::End => "end",
            _ => return,
        };
        if !self.seen.is_new((row.seq, action, row.requester.clone())) {
            return;
        }
        match row.action {
            ClockAction::Pause => {
                self.pending.insert(row.requester.clone(), row);
            }
            ClockAction::Resume => match self.pending.remove(&row.requester) {
                Some(pause) => self.note(&pause, &row),
                // A resume by a requester that did not pause ends all holds.
                None => self.let_all_go(&row),
            },
            _ => {
                self.pending.remove(&row.requester);
                self.let_all_go(&row);
            }
        }
    }

    fn let_all_go(&mut self, row: &ClockRow) {
        for (_, pause) in std::mem::take(&mut self.pending) {
            self.note(&pause, row);
        }
    }

    fn note(&mut self, pause: &ClockRow, resume: &ClockRow) {
        let ns = length(pause, resume).as_ns();
        let held = self
            .by_requester
            .entry(pause.requester.clone())
            .or_default();
        held.total = held.total.saturating_add(ns);
        held.lengths.add(ns);
        // A pause whose duration is zero must be counted as well.
        held.when.add(pause.t_virtual.as_ns(), ns.max(1));
    }

    fn into_requesters(self) -> Vec<Requester> {
        let requester = |(name, held): (Arc<str>, Held)| {
            let count = held.lengths.count();
            let ranks = held.lengths.nearest_ranks([50, 95, 100]);
            let [median, p95, max] = ranks.map(Duration::from_ns);
            Requester {
                name,
                count,
                holds: held.when.into_sorted(),
                total: Duration::from_ns(held.total),
                median,
                p95,
                max,
            }
        };
        let mut requesters: Vec<Requester> = self.by_requester.into_iter().map(requester).collect();
        requesters.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.name.cmp(&b.name)));
        requesters
    }
}

/// The most recent changes, which suffice because rows about one change are close to each other.
#[derive(Default)]
struct Recent {
    known: HashSet<Change>,
    order: VecDeque<Change>,
}

/// Number of a change, its action, and its requester.
type Change = (u64, &'static str, Arc<str>);

impl Recent {
    fn is_new(&mut self, change: Change) -> bool {
        if !self.known.insert(change.clone()) {
            return false;
        }
        self.order.push_back(change);
        if self.order.len() > RECENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

const RECENT: usize = 4096;

fn length(pause: &ClockRow, resume: &ClockRow) -> Duration {
    if resume.duration > Duration::ZERO && resume.requester == pause.requester {
        resume.duration
    } else if resume.host == pause.host {
        (resume.t_wall - pause.t_wall).max(Duration::ZERO)
    } else {
        Duration::ZERO // two hosts' wall clocks have no common zero
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: u64, host: &str, action: ClockAction, requester: &str, wall_ms: i64) -> ClockRow {
        ClockRow {
            seq,
            t_virtual: Instant::from_ns(1),
            t_wall: Instant::from_ns(wall_ms * 1_000_000),
            host: host.into(),
            action,
            requester: requester.into(),
            reason: "".into(),
            duration: Duration::ZERO,
        }
    }

    /// Returns for each requester the number and the total duration of its holds.
    fn figures(rows: impl IntoIterator<Item = ClockRow>) -> Vec<(String, usize, Duration)> {
        let mut holds = Holds::default();
        rows.into_iter().for_each(|row| holds.take(row));
        let all = holds.into_requesters().into_iter();
        all.map(|it| (it.name.to_string(), it.count, it.total))
            .collect()
    }

    #[test]
    fn overlapping_holds_on_two_hosts_count_once() {
        use ClockAction::{Pause, Resume};
        let rows = [
            row(1, "a", Pause, "grid", 0),
            row(1, "b", Pause, "grid", 5000),
            row(2, "a", Pause, "person", 2),
            row(3, "a", Resume, "grid", 10),
            row(3, "b", Resume, "grid", 5010),
            row(4, "a", Resume, "person", 102),
            row(5, "a", Pause, "grid", 200),
        ];
        assert_eq!(
            figures(rows),
            [
                ("person".to_owned(), 1, Duration::from_ms(100)),
                ("grid".to_owned(), 1, Duration::from_ms(10))
            ]
        );
    }

    #[test]
    fn the_duration_of_stopping_is_not_the_duration_of_the_pause() {
        use ClockAction::{End, Pause, Resume};
        let stated = |row: ClockRow, ms| ClockRow {
            duration: Duration::from_ms(ms),
            ..row
        };
        let rows = [
            stated(row(1, "a", Pause, "grid", 1), 1),
            stated(row(2, "a", Resume, "grid", 41), 40),
            stated(row(3, "a", Pause, "person", 50), 1),
            stated(row(4, "a", Pause, "timeloom", 70), 1),
            row(0, "a", End, "timeloom", 71),
            stated(row(5, "a", Resume, "timeloom", 90), 20),
        ];
        let until_the_end = Duration::from_ms(21);
        assert_eq!(
            figures(rows),
            [
                ("grid".to_owned(), 1, Duration::from_ms(40)),
                ("person".to_owned(), 1, until_the_end)
            ]
        );
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        use ClockAction::{Pause, Resume};
        let lasting = |(seq, ms): (u64, i64)| {
            let resume = ClockRow {
                duration: Duration::from_ms(ms),
                ..row(2 * seq + 1, "a", Resume, "grid", 0)
            };
            [row(2 * seq, "a", Pause, "grid", 0), resume]
        };
        let ranks = |lengths: std::ops::RangeInclusive<i64>| {
            let mut holds = Holds::default();
            let rows = (1..).zip(lengths).flat_map(lasting);
            rows.for_each(|row| holds.take(row));
            let all = holds.into_requesters();
            [all[0].median, all[0].p95, all[0].max]
        };
        assert_eq!(ranks(1..=100), [50, 95, 100].map(Duration::from_ms));
        assert_eq!(ranks(1..=1), [1; 3].map(Duration::from_ms));
        assert_eq!(Lengths::default().nearest_ranks([50]), [0]);
    }

    #[test]
    fn of_a_long_run_no_more_is_kept_than_a_page_shows() {
        use crate::report::outline::FULL;
        use ClockAction::{Pause, Resume};
        let scratch = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(scratch.path().join("run")).unwrap();
        let recorder = run.recorder().unwrap();
        let pauses = FULL as i64 + 1_000;
        for number in 0..pauses {
            let at = |action, seq, wall_ms| ClockRow {
                t_virtual: Instant::from_ns(number * 1_000_000),
                ..row(seq, "a", action, "grid", wall_ms)
            };
            let seq = 2 * number as u64;
            recorder.clock(&at(Pause, seq, 3 * number)).unwrap();
            recorder
                .clock(&at(Resume, seq + 1, 3 * number + 2))
                .unwrap();
        }
        recorder.finish().unwrap();
        let story = ClockStory::load(&run).unwrap();
        assert!(story.progress.len() < FULL, "{}", story.progress.len());
        let [grid] = &story.requesters[..] else {
            panic!("{}", story.requesters.len());
        };
        assert!(grid.holds.len() < FULL, "{}", grid.holds.len());
        assert_eq!(grid.count as i64, pauses, "none is lost for that");
        let held: i64 = grid.holds.iter().map(|(_, held)| held).sum();
        assert_eq!(held, pauses * 2_000_000);
        assert_eq!(grid.total, Duration::from_ns(held));
        assert_eq!(grid.median, Duration::from_ms(2));
        assert_eq!(story.end_s, Some((pauses - 1) as f64 / 1e3));
        let (wall_s, virtual_s) = story.progress[story.progress.len() - 1];
        assert_eq!(wall_s, (3 * (pauses - 1) + 2) as f64 / 1e3);
        assert_eq!(Some(virtual_s), story.end_s);
    }
}
