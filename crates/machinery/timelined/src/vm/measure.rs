//! Measurement of the relation between the guest's counter and the host's, and its combination with
//! earlier measurements.

use std::time::{Duration, Instant};

use timeloom_timeline::shm::{Bounds, CounterRelation, PageCounter, Region, now_ticks};

/// Relation of the guest's counter to the host's, as known from all measurements.
#[derive(Debug, Default)]
pub(crate) struct CounterEstimate {
    relation: Option<CounterRelation>,
}

/// Heartbeat whose answer has not been evaluated yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    generation: u64,
    sent: u64,
    bounds: Bounds,
}

impl Beat {
    /// Begins a heartbeat. Must be called directly before the heartbeat is sent.
    pub(crate) fn begin(region: &Region) -> Self {
        Self {
            generation: region.generation(),
            sent: own(),
            bounds: Bounds::default(),
        }
    }

    /// Reads the stamps that the host stores in the region while it answers. Ends when `done`
    /// returns true, or after a fixed time.
    pub(crate) fn watch(&mut self, region: &Region, mut done: impl FnMut() -> bool) {
        // If processors are busy, the host may begin late. It stores stamps for long enough that a
        // reader which polls at intervals finds some.
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
                // Zero means that the host has not stored a stamp yet; it would not be a valid
                // lower bound.
                if stamp != 0 {
                    self.bounds.saw(before, stamp, own());
                }
            }
        }
    }

    /// Ends a heartbeat after its answer has arrived. Returns the relation that follows from this
    /// heartbeat alone, or `None` if it gives none.
    pub(crate) fn end(mut self, answer: &Answer, region: &Region) -> Option<CounterRelation> {
        self.bounds.guest_first(self.sent, answer.received);
        self.bounds.host_first(answer.sent, answer.came);
        let (slack, drift_ppb) = region.allowances();
        let known = self
            .bounds
            .relation(answer.came, slack, drift_ppb, self.generation);
        known.filter(|_| region.generation() == self.generation)
    }
}

/// Answer of the host to a heartbeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) sequence: u64,
    /// Host's counter when the host received the heartbeat.
    pub(crate) received: u64,
    /// Host's counter when the host sent the answer.
    pub(crate) sent: u64,
    /// Guest's counter when the answer arrived.
    pub(crate) came: u64,
}

/// Controls the interval until the next heartbeat, which is shorter while the relation is not known
/// well. (On a machine with busy processors, the guest often sleeps while its host stores stamps. A
/// single good heartbeat then suffices for a while.)
#[derive(Debug, Default)]
pub(crate) struct BeatPace {
    early: u32,
}

impl BeatPace {
    /// Returns the interval until the next heartbeat. `is_close` is true if the relation is known
    /// well enough.
    pub(crate) fn next(&mut self, is_close: bool) -> Duration {
        if is_close {
            self.early = 0;
            return BEAT;
        }
        self.early = self.early.saturating_add(1);
        // With some emulators the relation never becomes accurate, so frequent beats must end.
        if self.early <= MOST_EARLY {
            EARLY
        } else {
            BEAT
        }
    }
}

impl CounterEstimate {
    /// Returns true if the relation is known almost as accurately as possible: its width is at most
    /// [`CLOSE`] times `slack`, in ticks of the counter.
    pub(crate) fn is_close(&self, slack: u64) -> bool {
        let enough = slack.saturating_mul(CLOSE);
        let width = |known: &CounterRelation| known.high.abs_diff(known.low);
        self.relation
            .as_ref()
            .map(width)
            .is_some_and(|width| width <= enough)
    }

    /// Adds a measurement. Returns the relation that is valid from now on.
    pub(crate) fn take(&mut self, new: CounterRelation) -> CounterRelation {
        let same = |old: &CounterRelation| old.generation == new.generation;
        let known = match self.relation.filter(same) {
            None => new,
            // If they contradict each other, each was valid when it was measured, so the counter
            // was displaced in between.
            Some(old) => old.and(&new).unwrap_or(new),
        };
        self.relation = Some(known);
        known
    }
}

/// Interval between heartbeats while the relation is known well enough.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// Interval between heartbeats otherwise. Slightly longer than the interval between two stampings
/// of the host.
const EARLY: Duration = Duration::from_millis(260);

/// Maximum number of short intervals in a row; they take half a minute.
const MOST_EARLY: u32 = 120;

/// Ratio of width and slack up to which a relation counts as accurate. The slack is added on both
/// sides, and the best heartbeat has an uncertainty of about the same size.
const CLOSE: u64 = 10;

/// Reads the guest's counter, in ticks.
pub(crate) fn own() -> u64 {
    now_ticks(PageCounter::Tsc)
}

/// Maximum delay of the host's first stamp. Until then the guest polls at the interval [`LOOK_UP`],
/// which is far shorter than the host's stamping.
const LATEST_BEGIN: Duration = Duration::from_millis(100);
const LOOK_UP: Duration = Duration::from_micros(100);

/// Time for which the guest reads stamps; slightly longer than the host stores them.
const LONGEST_WATCH: Duration = Duration::from_millis(8);

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(width: i64) -> CounterRelation {
        CounterRelation {
            low: 1_000,
            high: 1_000 + width,
            measured_at: 0,
            growth_0_64: 0,
            generation: 1,
        }
    }

    #[test]
    fn beats_follow_soon_until_one_has_shown_enough() {
        let (mut measured, mut pace) = (CounterEstimate::default(), BeatPace::default());
        let slack = 2_000;
        assert_eq!(
            pace.next(measured.is_close(slack)),
            EARLY,
            "nothing is known"
        );
        // Half a millisecond, the bound that the delay through the port gives.
        measured.take(relation(1_000_000));
        for _ in 0..20 {
            assert_eq!(pace.next(measured.is_close(slack)), EARLY);
        }
        measured.take(relation(9_000));
        assert_eq!(pace.next(measured.is_close(slack)), BEAT);
        // After a restart the relation is inaccurate again.
        measured.take(CounterRelation {
            generation: 2,
            ..relation(1_000_000)
        });
        for _ in 0..MOST_EARLY {
            assert_eq!(pace.next(measured.is_close(slack)), EARLY);
        }
        assert_eq!(pace.next(measured.is_close(slack)), BEAT, "not for ever");
    }
}
