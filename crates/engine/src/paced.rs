//! An engine that keeps a pace and measures how well it does.

use timeloom_time::{ClockMap, Instant, Rate, Virtual, Wall};

use crate::queue::{EventQueue, Wheel};
use crate::{Engine, Lateness, Limit, Model, Pace, Wake};

/// An engine, what holds it back, and how late it has been.
#[derive(Debug)]
pub struct Paced<M, Q: EventQueue = Wheel> {
    /// The engine.
    pub engine: Engine<M, Q>,
    pace: Pace,
    lateness: Lateness,
}

/// Events between two looks at the wall clock: few enough that a batch takes
/// microseconds, many enough that the look costs little.
const BATCH: u64 = 32;

impl<M: Model<Q>, Q: EventQueue> Paced<M, Q> {
    /// `engine` at `pace`, judged by `limit`.
    pub fn new(engine: Engine<M, Q>, pace: Pace, limit: Limit) -> Self {
        Self {
            engine,
            pace,
            lateness: Lateness::new(limit),
        }
    }

    /// Handles what is due and says when to come back. `wall` reads the wall
    /// clock; it is asked once per batch. Goes on for at most `budget` events,
    /// so that a caller with portals to serve gets its turn.
    pub fn poll(&mut self, mut wall: impl FnMut() -> Instant<Wall>, budget: u64) -> Wake {
        let mut left = budget;
        let mut now = wall();
        loop {
            let wake = self.pace.wake(now, self.engine.next_wake());
            if wake != Wake::Now {
                return wake;
            }
            if left == 0 {
                return Wake::Now;
            }
            let first = self.engine.next_wake();
            let limit = self.pace.limit(now);
            let done = self.engine.run_until(limit, left.min(BATCH));
            left -= done;
            now = wall();
            // A figure that claims to be a bound rounds outward: every event
            // of the batch is charged from its first instant to its end.
            if let (Pace::Clock(map), Some(first)) = (&self.pace, first) {
                self.lateness.record(map.at(now) - first, done);
            }
        }
    }

    /// The pace.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Changes the pace. Granting a further step is setting
    /// [`Pace::Granted`] to a later instant.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Changes the rate of a clock at wall time `now` without a jump: 0 is a
    /// pause. Other paces have no rate and stay as they are.
    pub fn set_rate(&mut self, now: Instant<Wall>, rate: Rate) {
        if let Pace::Clock(map) = &mut self.pace {
            *map = map.continued(now, rate);
        }
    }

    /// Follows a clock that somebody else commands: the testbed's.
    pub fn follow(&mut self, map: ClockMap<Wall, Virtual>) {
        self.pace = Pace::Clock(map);
    }

    /// The record of lateness.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }
}
