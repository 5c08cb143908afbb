//! History of a clock: its last changes, for queries about past instants, and the totals of all
//! changes.
//!
//! A run may pause some thousand times a second for days, so memory must not grow with the number
//! of changes: a change is added to the totals when it ends, and stored only for a while longer.

use std::collections::VecDeque;

use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual, Wall};

use super::ChangeKind;

/// A change of a clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Kind of the change.
    pub(super) kind: ChangeKind,
    /// Map wall → virtual in force from the change on.
    pub(super) map: ClockMap<Wall, Virtual>,
}

/// Totals of one run, all taken at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reckoning {
    /// Virtual time reached since the session began.
    pub virtual_time: Duration,
    /// Wall time since the clock was first resumed.
    pub wall: Duration,
    /// Part of `wall` during which the clock was paused.
    pub paused: Duration,
    /// Number of times that the clock stopped.
    pub pauses: u64,
}

/// History of a clock. It always contains the change that is in force.
#[derive(Debug)]
pub(super) struct History {
    /// Recent changes, oldest first. The last one is in force.
    recent: VecDeque<Change>,
    tally: Tally,
}

/// Totals of the changes that have ended.
#[derive(Clone, Copy, Debug)]
struct Tally {
    /// Virtual time at which counting ends.
    end: Instant<Virtual>,
    /// Wall instant at which the clock was first resumed; `None` before.
    began: Option<Instant<Wall>>,
    /// Wall instant at which the clock showed `end`; `None` before.
    reached: Option<Instant<Wall>>,
    is_paused: bool,
    paused: Duration,
    pauses: u64,
}

impl History {
    /// Creates a history that begins with `map`, the map in force from the start.
    pub(super) fn new(map: ClockMap<Wall, Virtual>) -> Self {
        let kind = ChangeKind::Resume;
        // For a clock that is stopped at first, the run begins when it is resumed.
        let runs = map.rate != Rate::STOPPED;
        Self {
            recent: VecDeque::from([Change { kind, map }]),
            tally: Tally {
                end: Instant::FAR_FUTURE,
                began: runs.then_some(map.in0),
                reached: None,
                is_paused: false,
                paused: Duration::ZERO,
                pauses: 0,
            },
        }
    }

    /// Sets the virtual time at which counting ends. The clock must not have shown `end` yet.
    pub(super) fn count_until(&mut self, end: Instant<Virtual>) {
        self.tally.end = end;
    }

    /// Adds a change that comes into force.
    pub(super) fn push(&mut self, change: Change) {
        let last = self.last();
        self.tally.close(&last, change.map.in0);
        self.tally.begin(&change);
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(change);
    }

    /// Returns the virtual time that the clock showed at a past wall instant, but at most
    /// `ceiling`. For an instant before the stored changes, returns the time at the first of these.
    pub(super) fn at(&self, wall: Instant<Wall>, ceiling: Instant<Virtual>) -> Instant<Virtual> {
        let index = self.recent.partition_point(|it| it.map.in0 <= wall);
        // A clock that reached its ceiling is recorded as stopped only a moment later.
        let next = self.recent.get(index);
        let most = next.map_or(ceiling, |change| change.map.out0);
        self.recent[index.saturating_sub(1)].map.at(wall).min(most)
    }

    /// Returns the totals from the first resumption of the clock to the end of counting, or to
    /// `now` if the clock has not shown the end.
    pub(super) fn reckon(&self, now: Instant<Wall>) -> Reckoning {
        let last = self.last();
        let now = now.max(last.map.in0);
        let mut tally = self.tally;
        tally.close(&last, now);
        let shown = match tally.reached {
            Some(_) => tally.end,
            None => last.map.at(now),
        };
        let end = tally.reached.unwrap_or(now);
        Reckoning {
            virtual_time: shown - Instant::ZERO,
            wall: end - tally.began.unwrap_or(now).min(end),
            paused: tally.paused,
            pauses: tally.pauses,
        }
    }

    fn last(&self) -> Change {
        *self.recent.back().expect("a change is in force")
    }
}

impl Tally {
    fn begin(&mut self, change: &Change) {
        // If computing takes no time, a resumed clock does not run by itself.
        let goes = change.map.rate != Rate::STOPPED || change.kind == ChangeKind::Resume;
        if goes && self.began.is_none() {
            self.began = Some(change.map.in0);
        }
        // If computing takes no time, a clock may also stand without being paused.
        match change.kind {
            ChangeKind::Pause => self.is_paused = true,
            ChangeKind::Resume => self.is_paused = false,
            ChangeKind::Dilate | ChangeKind::Skip => {}
        }
    }

    /// Adds a change that was in force until `until` to the totals.
    fn close(&mut self, change: &Change, until: Instant<Wall>) {
        if self.reached.is_some() {
            return;
        }
        let reached = change.map.first_reaching(self.end);
        self.reached = reached.filter(|reached| *reached <= until);
        let until = self.reached.unwrap_or(until);
        if self.is_paused && self.began.is_some() && change.map.in0 < until {
            self.paused += until - change.map.in0;
            self.pauses += u64::from(change.kind == ChangeKind::Pause);
        }
    }
}

/// Maximum number of stored changes; at the maximum rate of pauses they cover about twenty seconds.
/// A captured frame is read sooner than that.
const KEPT: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(ns: i64) -> Instant<Wall> {
        Instant::from_ns(ns)
    }

    /// Returns the history of a clock that is stopped until 100, runs, is stopped from 110 to 140,
    /// runs, and is stopped from 160 on; as of `now`.
    fn history(now: i64, planned: i64) -> History {
        let mut map = ClockMap::new(wall(0), Instant::ZERO, Rate::STOPPED);
        let mut history = History::new(map);
        history.count_until(Instant::from_ns(planned));
        let changes = [
            (100, ChangeKind::Resume, Rate::ONE),
            (110, ChangeKind::Pause, Rate::STOPPED),
            (140, ChangeKind::Resume, Rate::ONE),
            (160, ChangeKind::Pause, Rate::STOPPED),
        ];
        for (at, kind, rate) in changes.into_iter().filter(|(at, ..)| *at <= now) {
            map = map.continued(wall(at), rate);
            history.push(Change { kind, map });
        }
        history
    }

    fn figures(now: i64, planned: i64) -> [i64; 4] {
        let it = history(now, planned).reckon(wall(now));
        [
            it.virtual_time.as_ns(),
            it.wall.as_ns(),
            it.paused.as_ns(),
            it.pauses as i64,
        ]
    }

    #[test]
    fn a_run_that_got_there_ends_at_the_very_instant() {
        assert_eq!(figures(200, 20), [20, 50, 30, 1]);
        assert_eq!(figures(200, 5), [5, 5, 0, 0]);
    }

    #[test]
    fn a_run_that_was_cut_short_ends_when_it_was() {
        assert_eq!(figures(50, 1000), [0, 0, 0, 0]);
        assert_eq!(figures(150, 1000), [20, 50, 30, 1]);
        assert_eq!(figures(130, 1000), [10, 30, 20, 1]);
        assert_eq!(figures(200, 1000), [30, 100, 70, 2]);
    }

    /// With ten times as many changes as are stored, all are counted, but only late instants are
    /// told apart.
    #[test]
    fn memory_is_bounded_for_any_number_of_pauses() {
        let mut map = ClockMap::new(wall(0), Instant::ZERO, Rate::ONE);
        let mut history = History::new(map);
        let pauses = 5 * KEPT as i64;
        for pause in 0..pauses {
            for (at, kind, rate) in [
                (pause * 10 + 4, ChangeKind::Pause, Rate::STOPPED),
                (pause * 10 + 10, ChangeKind::Resume, Rate::ONE),
            ] {
                map = map.continued(wall(at), rate);
                history.push(Change { kind, map });
            }
        }
        assert_eq!(history.recent.len(), KEPT);
        assert!(
            history.recent.capacity() <= 2 * KEPT,
            "{}",
            history.recent.capacity()
        );
        let end = pauses * 10;
        let it = history.reckon(wall(end));
        assert_eq!(it.pauses, pauses as u64);
        assert_eq!(it.paused.as_ns(), pauses * 6);
        assert_eq!(it.virtual_time.as_ns(), pauses * 4);
        assert_eq!(it.wall.as_ns(), end);
        let at = |ns| history.at(wall(ns), Instant::FAR_FUTURE).as_ns();
        assert_eq!(at(end - 8), pauses * 4 - 2);
        assert_eq!(at(end - 1), pauses * 4, "it stood");
        let first = history.recent[0].map.out0.as_ns();
        assert!(first > 0 && at(0) <= first, "{first} {}", at(0));
    }
}
