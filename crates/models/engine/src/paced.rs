//! Engine with a pace, which records its lateness.

use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual, Wall};

use crate::queue::{EventQueue, Wheel};
use crate::{Engine, Lateness, Limit, Model, Pace, Wake};

/// Engine with its pace and its record of lateness.
#[derive(Debug)]
pub struct Paced<M, Q: EventQueue = Wheel> {
    /// The engine.
    pub engine: Engine<M, Q>,
    pace: Pace,
    /// Virtual instant at which the external clock of [`Pace::Clock`] stops by itself.
    stop: Instant<Virtual>,
    lateness: Lateness,
}

/// Number of events between two readings of the wall clock. It is small enough that a batch takes
/// microseconds, and large enough that the readings cost little.
const BATCH: u64 = 32;

impl<M: Model<Q>, Q: EventQueue> Paced<M, Q> {
    /// Returns `engine` with `pace`. `limit` is the lateness beyond which its run is not trusted.
    pub fn new(engine: Engine<M, Q>, pace: Pace, limit: Limit) -> Self {
        Self {
            engine,
            pace,
            stop: Instant::FAR_FUTURE,
            lateness: Lateness::new(limit),
        }
    }

    /// Handles the due events, at most `budget` of them, and returns when to call again. `wall`
    /// reads the wall clock and is called once per batch. The budget lets a caller serve its
    /// portals between two calls.
    pub fn poll(&mut self, mut wall: impl FnMut() -> Instant<Wall>, budget: u64) -> Wake {
        let mut left = budget;
        let mut now = wall();
        loop {
            let next = self.engine.next_wake();
            // The clock stops before the instant of the next event; only a change lets it continue.
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
            // The recorded lateness is an upper bound: every event of the batch is assumed to be
            // due at the batch's first instant, and to be handled at the end of the batch.
            if let (Pace::Clock(map), Some(first)) = (&self.pace, first) {
                self.lateness.record(map.at(now) - first, done);
            }
        }
    }

    /// Runs ahead of the clock, up to `limit` and for at most `budget` events. Stops after the
    /// first event for which `has_news` is true, that is, the model has output for other processes.
    /// Returns the virtual instant that was reached; the clock must reach it before the engine
    /// continues.
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
            // The clock has not reached the event yet, so the event is not late.
            self.lateness.record(Duration::ZERO, 1);
            if has_news(&self.engine.model) {
                break;
            }
        }
        self.engine.now()
    }

    /// Returns the last virtual instant that may be handled at wall time `now`.
    pub fn limit(&self, now: Instant<Wall>) -> Instant<Virtual> {
        self.pace.limit(now).min(self.stop)
    }

    /// Returns the pace.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Replaces the pace. To grant more time, pass [`Pace::Granted`] with a later instant.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Sets the rate of the clock to `rate` at wall time `now`, without a jump; rate 0 is a pause.
    /// Has no effect on paces without a clock.
    pub fn set_rate(&mut self, now: Instant<Wall>, rate: Rate) {
        if let Pace::Clock(map) = &mut self.pace {
            *map = map.continued(now, rate);
        }
    }

    /// Follows an external clock, that of the testbed. `stop` is the virtual instant at which the
    /// clock stops by itself; [`Instant::FAR_FUTURE`] means never.
    pub fn follow(&mut self, map: ClockMap<Wall, Virtual>, stop: Instant<Virtual>) {
        self.pace = Pace::Clock(map);
        self.stop = stop;
    }

    /// Sets the virtual instant at which the external clock stops by itself.
    pub fn set_stop(&mut self, stop: Instant<Virtual>) {
        self.stop = stop;
    }

    /// Returns the record of lateness.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }
}
