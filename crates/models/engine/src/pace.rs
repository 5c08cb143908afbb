//! Pace of an engine: the last instant it may handle, and the instant of its next run.

use timeloom_time::{ClockMap, Instant, Rate, Virtual, Wall};

/// Pace of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// No limit: as fast as possible.
    Free,
    /// Clock: rate 1 is real time, 1/f is dilated by f, 0 is paused. While it is paused no event is
    /// handled, so packets in flight are stopped too.
    Clock(ClockMap<Wall, Virtual>),
    /// External control, which has granted all instants up to this one.
    Granted(Instant<Virtual>),
}

/// Time at which a waiting engine must be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// At once: there is more to do.
    Now,
    /// At this instant of the wall clock.
    At(Instant<Wall>),
    /// At the next change: a packet comes in, the pause ends, a further step is granted.
    OnChange,
}

impl Pace {
    /// Returns real time: virtual `from` is wall `now`.
    pub fn real(now: Instant<Wall>, from: Instant<Virtual>) -> Self {
        Self::Clock(ClockMap::new(now, from, Rate::ONE))
    }

    /// Returns the last instant that may be handled at wall time `now`.
    pub fn limit(&self, now: Instant<Wall>) -> Instant<Virtual> {
        match self {
            Self::Free => Instant::FAR_FUTURE,
            Self::Clock(map) => map.at(now),
            Self::Granted(until) => *until,
        }
    }

    /// Returns when to run again, at wall time `now`, for an event due at `next`.
    pub fn wake(&self, now: Instant<Wall>, next: Option<Instant<Virtual>>) -> Wake {
        let Some(next) = next else {
            return Wake::OnChange;
        };
        if next <= self.limit(now) {
            return Wake::Now;
        }
        match self {
            // A paused clock never reaches the event; the resume is a change.
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
        // One tenth in binary is a little less, hence the extra nanosecond.
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
