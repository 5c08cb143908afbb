//! Engine with a pace, which measures its lateness.

use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual, Wall};

use crate::queue::{EventQueue, Wheel};
use crate::{Engine, Lateness, Limit, Model, Pace, Wake};

/// Engine with its pace and its record of lateness.
#[derive(Debug)]
pub struct Paced<M, Q: EventQueue = Wheel> {
    /// The engine.
    pub engine: Engine<M, Q>,
    pace: Pace,
    /// Instant at which the followed clock stops by itself.
    stop: Instant<Virtual>,
    lateness: Lateness,
}

/// Number of events between two readings of the wall clock: few enough that a batch takes
/// microseconds, many enough that the reading costs little.
const BATCH: u64 = 32;

impl<M: Model<Q>, Q: EventQueue> Paced<M, Q> {
    /// Returns `engine` at `pace`, judged by `limit`.
    pub fn new(engine: Engine<M, Q>, pace: Pace, limit: Limit) -> Self {
        Self {
            engine,
            pace,
            stop: Instant::FAR_FUTURE,
            lateness: Lateness::new(limit),
        }
    }

    /// Handles the due events and returns when to call again. `wall` reads the wall clock; it is
    /// called once per batch. Handles at most `budget` events, so that a caller with portals to
    /// serve gets its turn.
    pub fn poll(&mut self, mut wall: impl FnMut() -> Instant<Wall>, budget: u64) -> Wake {
        let mut left = budget;
        let mut now = wall();
        loop {
            let next = self.engine.next_wake();
            // The clock stops before the next event; only a change lets it continue.
            if next.is_some_and(|next| next > self.stop) {
                return Wake::OnChange;
            }
            let wake = self.pace.wake(now, next);
            if wake != Wake::Now {
                return wake;
            }
            if left == 0 {
                return Wake::Now;
            }
            let first = self.engine.next_wake();
            let limit = self.limit(now);
            let done = self.engine.run_until(limit, left.min(BATCH));
            left -= done;
            now = wall();
            // An upper bound rounds outward: every event of the batch is charged from the batch's
            // first instant to its end.
            if let (Pace::Clock(map), Some(first)) = (&self.pace, first) {
                self.lateness.record(map.at(now) - first, done);
            }
        }
    }

    /// Runs ahead of the clock, up to `limit`, for at most `budget` events, and no further than the
    /// first event after which the model `has_news` for other processes. Returns the instant
    /// reached, which the clock must reach before the engine continues.
    pub fn run_ahead(
        &mut self,
        limit: Instant<Virtual>,
        budget: u64,
        has_news: impl Fn(&M) -> bool,
    ) -> Instant<Virtual> {
        for _ in 0..budget {
            if self.engine.run_until(limit, 1) == 0 {
                break;
            }
            // The clock has not reached the event yet.
            self.lateness.record(Duration::ZERO, 1);
            if has_news(&self.engine.model) {
                break;
            }
        }
        self.engine.now()
    }

    /// Returns the last instant that may be handled at wall time `now`.
    pub fn limit(&self, now: Instant<Wall>) -> Instant<Virtual> {
        self.pace.limit(now).min(self.stop)
    }

    /// Returns the pace.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Changes the pace. To grant a further step, set [`Pace::Granted`] to a later instant.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Changes the rate of a clock at wall time `now` without a jump: 0 is a pause. Other paces
    /// have no rate and stay unchanged.
    pub fn set_rate(&mut self, now: Instant<Wall>, rate: Rate) {
        if let Pace::Clock(map) = &mut self.pace {
            *map = map.continued(now, rate);
        }
    }

    /// Follows an external clock: the testbed's, which stops by itself at `stop`
    /// ([`Instant::FAR_FUTURE`]: never).
    pub fn follow(&mut self, map: ClockMap<Wall, Virtual>, stop: Instant<Virtual>) {
        self.pace = Pace::Clock(map);
        self.stop = stop;
    }

    /// Sets the last instant that may be handled, until the next change.
    pub fn set_stop(&mut self, stop: Instant<Virtual>) {
        self.stop = stop;
    }

    /// Returns the record of lateness.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }
}
