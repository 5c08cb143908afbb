//! A measurement of the relation of the guest's counter to the host's, and its combination with
//! earlier ones.

use std::time::{Duration, Instant};

use timeloom_publish::{Bounds, PageCounter, Region, Relation, now_ticks};

/// Knowledge of a guest about its counter.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    relation: Option<Relation>,
}

/// A pending beat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    generation: u64,
    sent: u64,
    bounds: Bounds,
}

impl Beat {
    /// Begins a beat; to be called directly before it is sent.
    pub(crate) fn begin(region: &Region) -> Self {
        Self {
            generation: region.generation(),
            sent: own(),
            bounds: Bounds::default(),
        }
    }

    /// Reads the host's stamps, which the host stores while it answers, until `done` or at most for
    /// the allowed time.
    pub(crate) fn watch(&mut self, region: &Region, mut done: impl FnMut() -> bool) {
        // If processors are busy, the host may begin late. It stamps long enough for a reader that
        // checks periodically.
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
                // A region that was never stamped gives no information, and no lower bound.
                if stamp != 0 {
                    self.bounds.saw(before, stamp, own());
                }
            }
        }
    }

    /// Ends a beat after its answer; returns the relation that follows from this beat alone.
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

/// Answer to a beat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) sequence: u64,
    /// The host's counter when it received the beat.
    pub(crate) received: u64,
    /// The host's counter when it sent the answer.
    pub(crate) sent: u64,
    /// The guest's counter when the answer arrived.
    pub(crate) came: u64,
}

/// Interval until the next beat: shorter while the relation is not known well. On a machine with
/// busy processors the guest often sleeps during its host's stamps, and one good beat suffices for
/// a while.
#[derive(Debug, Default)]
pub(crate) struct BeatPace {
    early: u32,
}

impl BeatPace {
    /// Returns the interval. `is_close` is true if the relation is known well enough.
    pub(crate) fn next(&mut self, is_close: bool) -> Duration {
        if is_close {
            self.early = 0;
            return BEAT;
        }
        self.early = self.early.saturating_add(1);
        // With some emulators the relation never becomes better.
        if self.early <= MOST_EARLY {
            EARLY
        } else {
            BEAT
        }
    }
}

impl Measured {
    /// Returns true if the relation is known about as well as possible: to a few times the allowed
    /// `slack` on either side.
    pub(crate) fn is_close(&self, slack: u64) -> bool {
        let enough = slack.saturating_mul(CLOSE);
        let width = |known: &Relation| known.high.abs_diff(known.low);
        self.relation
            .as_ref()
            .map(width)
            .is_some_and(|width| width <= enough)
    }

    /// Adds a measurement; returns the relation that is valid from now on.
    pub(crate) fn take(&mut self, new: Relation) -> Relation {
        let same = |old: &Relation| old.generation == new.generation;
        let known = match self.relation.filter(same) {
            None => new,
            // Both were true at their measurement: the counter was displaced in between.
            Some(old) => old.and(&new).unwrap_or(new),
        };
        self.relation = Some(known);
        known
    }
}

/// Interval between beats while enough is known.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// Interval between beats otherwise: slightly more than between two stampings of the host.
const EARLY: Duration = Duration::from_millis(260);

/// Maximum number of these in a row, half a minute.
const MOST_EARLY: u32 = 120;

/// The slack is on both sides, and the best result of a beat is about as large.
const CLOSE: u64 = 10;

/// Reads the guest's counter.
pub(crate) fn own() -> u64 {
    now_ticks(PageCounter::Tsc)
}

/// Maximum delay of the host's first stamp, and the interval at which a guest checks for it: far
/// shorter than the duration of the stamping.
const LATEST_BEGIN: Duration = Duration::from_millis(100);
const LOOK_UP: Duration = Duration::from_micros(100);

/// Slightly longer than the host's stamping.
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
        // Half a millisecond, as bounded by the delay through the port.
        measured.take(relation(1_000_000));
        for _ in 0..20 {
            assert_eq!(pace.next(measured.is_close(slack)), EARLY);
        }
        measured.take(relation(9_000));
        assert_eq!(pace.next(measured.is_close(slack)), BEAT);
        // After a restart the relation is wide again.
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
