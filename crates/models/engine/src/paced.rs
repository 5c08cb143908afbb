//! An engine that keeps a pace and measures how well it does.

use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual, Wall};

use crate::queue::{EventQueue, Wheel};
use crate::{Engine, Lateness, Limit, Model, Pace, Wake};

/// An engine, what holds it back, and how late it has been.
#[derive(Debug)]
pub struct Paced<M, Q: EventQueue = Wheel> {
    /// The engine.
    pub engine: Engine<M, Q>,
    pace: Pace,
    /// Where the clock that it follows stops by itself.
    stop: Instant<Virtual>,
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
            stop: Instant::FAR_FUTURE,
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
            let next = self.engine.next_wake();
            // The clock stands there; what lets it go on is a change.
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
            // A figure that claims to be a bound rounds outward: every event
            // of the batch is charged from its first instant to its end.
            if let (Pace::Clock(map), Some(first)) = (&self.pace, first) {
                self.lateness.record(map.at(now) - first, done);
            }
        }
    }

    /// Goes ahead of the clock, up to `limit`, for at most `budget` events, and no further
    /// than the first event after which the model `has_news` for somebody outside. Gives
    /// back how far it is, which is where the clock has to be before it goes on.
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
            // The clock is not there yet.
            self.lateness.record(Duration::ZERO, 1);
            if has_news(&self.engine.model) {
                break;
            }
        }
        self.engine.now()
    }

    /// The last instant that may be handled at wall time `now`.
    pub fn limit(&self, now: Instant<Wall>) -> Instant<Virtual> {
        self.pace.limit(now).min(self.stop)
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

    /// Follows a clock that somebody else commands: the testbed's, which stops by
    /// itself at `stop` ([`Instant::FAR_FUTURE`]: nowhere).
    pub fn follow(&mut self, map: ClockMap<Wall, Virtual>, stop: Instant<Virtual>) {
        self.pace = Pace::Clock(map);
        self.stop = stop;
    }

    /// Handles nothing after `stop`, until told otherwise.
    pub fn set_stop(&mut self, stop: Instant<Virtual>) {
        self.stop = stop;
    }

    /// The record of lateness.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }
}
