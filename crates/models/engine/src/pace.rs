//! Pace of an engine: the last virtual instant that it may handle, and the time of its next run.

use timeloom_time::{ClockMap, Instant, Rate, Virtual, Wall};

/// Limit of an engine's progress in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// No limit: as fast as possible.
    Free,
    /// A clock that maps wall time to virtual time: rate 1 is real time, 1/f is dilated by f, 0 is
    /// paused. A paused engine handles no events, so packets in flight are stopped too.
    Clock(ClockMap<Wall, Virtual>),
    /// Another process controls the engine, and has granted all instants up to this one.
    Granted(Instant<Virtual>),
}

/// Condition for the next run of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Run again at once: more events are due.
    Now,
    /// Run again at this instant of the wall clock.
    At(Instant<Wall>),
    /// Run again after a change: a packet arrives, a pause ends, or a later instant is granted.
    OnChange,
}

impl Pace {
    /// Returns the pace of real time, with virtual instant `from` at wall time `now`.
    pub fn real(now: Instant<Wall>, from: Instant<Virtual>) -> Self {
        Self::Clock(ClockMap::new(now, from, Rate::ONE))
    }

    /// Returns the last virtual instant that may be handled at wall time `now`.
    pub fn limit(&self, now: Instant<Wall>) -> Instant<Virtual> {
        match self {
            Self::Free => Instant::FAR_FUTURE,
            Self::Clock(map) => map.at(now),
            Self::Granted(until) => *until,
        }
    }

    /// Returns when to run the engine again. `now` is the wall time, and `next` the virtual instant
    /// of the next event.
    pub fn wake(&self, now: Instant<Wall>, next: Option<Instant<Virtual>>) -> Wake {
        let Some(next) = next else {
            return Wake::OnChange;
        };
        if next <= self.limit(now) {
            return Wake::Now;
        }
        match self {
            // A paused clock never reaches the event. Resuming it is a change.
            Self::Clock(map) => map.first_reaching(next).map_or(Wake::OnChange, Wake::At),
            Self::Free | Self::Granted(_) => Wake::OnChange,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(ns: i64) -> Instant<Wall> {
        Instant::from_ns(ns)
    }

    #[test]
    fn a_dilated_clock_wakes_later() {
        let tenth = Rate::from_ratio(1, 10).unwrap();
        let pace = Pace::Clock(ClockMap::new(wall(100), Instant::ZERO, tenth));
        let next = Some(Instant::from_ns(5));
        // The fixed-point form of 1/10 is slightly less than 1/10, hence the extra nanosecond.
        assert_eq!(pace.wake(wall(100), next), Wake::At(wall(151)));
        assert_eq!(pace.wake(wall(151), next), Wake::Now);
    }

    #[test]
    fn a_paused_clock_and_a_grant_wait_for_a_change() {
        let paused = Pace::Clock(ClockMap::new(wall(0), Instant::ZERO, Rate::STOPPED));
        let next = Some(Instant::from_ns(5));
        assert_eq!(paused.wake(wall(1_000), next), Wake::OnChange);
        assert_eq!(
            Pace::Granted(Instant::from_ns(4)).wake(wall(0), next),
            Wake::OnChange
        );
        assert_eq!(
            Pace::Granted(Instant::from_ns(5)).wake(wall(0), next),
            Wake::Now
        );
        assert_eq!(Pace::Free.wake(wall(0), None), Wake::OnChange);
    }
}
