//! One measurement of how the guest's counter stands to the host's, and what it becomes
//! with those before.

use std::time::{Duration, Instant};

use timeloom_publish::{Bounds, PageCounter, Region, Relation, now_ticks};

/// What a guest knows of its counter.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    relation: Option<Relation>,
}

/// A beat that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    generation: u64,
    sent: u64,
    bounds: Bounds,
}

impl Beat {
    /// About to be sent.
    pub(crate) fn begin(region: &Region) -> Self {
        Self {
            generation: region.generation(),
            sent: own(),
            bounds: Bounds::default(),
        }
    }

    /// Looks at the host's stamps, which it stores while it answers, until `done` or for
    /// no longer than it may take it.
    pub(crate) fn watch(&mut self, region: &Region, mut done: impl FnMut() -> bool) {
        // Where processors are busy the host may begin late. It stamps long enough for who
        // looks up now and then.
        let begun = Instant::now();
        let first = region.stamp();
        while region.stamp() == first && !done() && begun.elapsed() < LATEST_BEGIN {
            std::thread::sleep(LOOK_UP);
        }
        let end = Instant::now() + LONGEST_WATCH;
        while !done() && Instant::now() < end {
            for _ in 0..64 {
                let before = own();
                let stamp = region.stamp();
                // A region that was never stamped says nothing, and is no lower bound.
                if stamp != 0 {
                    self.bounds.saw(before, stamp, own());
                }
            }
        }
    }

    /// The answer has come: what is known from this beat alone.
    pub(crate) fn end(mut self, answer: &Answer, region: &Region) -> Option<Relation> {
        self.bounds.guest_first(self.sent, answer.received);
        self.bounds.host_first(answer.sent, answer.came);
        let (slack, drift_ppb) = region.allowances();
        let known = self
            .bounds
            .relation(answer.came, slack, drift_ppb, self.generation);
        known.filter(|_| region.generation() == self.generation)
    }
}

/// An answer to a beat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) sequence: u64,
    /// The host's counter.
    pub(crate) received: u64,
    /// The host's counter.
    pub(crate) sent: u64,
    /// The guest's counter when it had come.
    pub(crate) came: u64,
}

/// How long to wait for the next beat: sooner while little is known. On a machine whose
/// processors are busy the guest often sleeps through its host's stamps, and one good beat
/// is enough for a while.
#[derive(Debug, Default)]
pub(crate) struct BeatPace {
    early: u32,
}

impl BeatPace {
    /// `is_close` says whether enough is known now.
    pub(crate) fn next(&mut self, is_close: bool) -> Duration {
        if is_close {
            self.early = 0;
            return BEAT;
        }
        self.early = self.early.saturating_add(1);
        // Some emulators will never show it better.
        if self.early <= MOST_EARLY {
            EARLY
        } else {
            BEAT
        }
    }
}

impl Measured {
    /// Whether the relation is known about as well as it can be: to some times the `slack`
    /// that is allowed for on either side.
    pub(crate) fn is_close(&self, slack: u64) -> bool {
        let enough = slack.saturating_mul(CLOSE);
        let width = |known: &Relation| known.high.abs_diff(known.low);
        self.relation
            .as_ref()
            .map(width)
            .is_some_and(|width| width <= enough)
    }

    /// Takes a measurement in; what holds from now on.
    pub(crate) fn take(&mut self, new: Relation) -> Relation {
        let same = |old: &Relation| old.generation == new.generation;
        let known = match self.relation.filter(same) {
            None => new,
            // Both were true when they were measured: the counter was moved meanwhile.
            Some(old) => old.and(&new).unwrap_or(new),
        };
        self.relation = Some(known);
        known
    }
}

/// Between two beats, when enough is known.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// Between two beats else: a little more than between two stampings of the host.
const EARLY: Duration = Duration::from_millis(260);

/// So many in a row, half a minute.
const MOST_EARLY: u32 = 120;

/// The slack is on both sides, and what a beat finds at best is about as much.
const CLOSE: u64 = 10;

/// The guest's counter.
pub(crate) fn own() -> u64 {
    now_ticks(PageCounter::Tsc)
}

/// How late the host may begin to stamp, and how often a guest looks whether it has: far
/// more often than the stamping lasts.
const LATEST_BEGIN: Duration = Duration::from_millis(100);
const LOOK_UP: Duration = Duration::from_micros(100);

/// A little longer than the host stamps.
const LONGEST_WATCH: Duration = Duration::from_millis(8);

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(width: i64) -> Relation {
        Relation {
            low: 1_000,
            high: 1_000 + width,
            measured_at: 0,
            growth_0_64: 0,
            generation: 1,
        }
    }

    #[test]
    fn beats_follow_soon_until_one_has_shown_enough() {
        let (mut measured, mut pace) = (Measured::default(), BeatPace::default());
        let slack = 2_000;
        assert_eq!(
            pace.next(measured.is_close(slack)),
            EARLY,
            "nothing is known"
        );
        // Half a millisecond, as the way through the port bounds it.
        measured.take(relation(1_000_000));
        for _ in 0..20 {
            assert_eq!(pace.next(measured.is_close(slack)), EARLY);
        }
        measured.take(relation(9_000));
        assert_eq!(pace.next(measured.is_close(slack)), BEAT);
        // After a restart it is wide again.
        measured.take(Relation {
            generation: 2,
            ..relation(1_000_000)
        });
        for _ in 0..MOST_EARLY {
            assert_eq!(pace.next(measured.is_close(slack)), EARLY);
        }
        assert_eq!(pace.next(measured.is_close(slack)), BEAT, "not for ever");
    }
}
