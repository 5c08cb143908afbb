//! Bound on timeline time at one instant of the core clock.

use timeloom_time::{Duration, Instant};

use crate::{Core, RateError, TimelineTime};

/// Bound on the timeline's true value: it was between `earliest` and `latest` when the core clock
/// showed exactly `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Reading of the core clock.
    pub at: Instant<Core>,
    /// Earliest possible true value of the timeline at that reading.
    pub earliest: Instant<TimelineTime>,
    /// Latest possible true value of the timeline at that reading.
    pub latest: Instant<TimelineTime>,
}

impl Bound {
    /// Returns the bound at a later instant. `rates` are the lowest and the highest rate error of
    /// the timeline relative to the core clock. If `to` is before `at`, the bound is unchanged.
    #[must_use]
    pub fn carried_to(&self, to: Instant<Core>, rates: (RateError, RateError)) -> Self {
        let age = to - self.at;
        if age <= Duration::ZERO {
            return *self;
        }
        Self {
            at: to,
            earliest: self.earliest + (age + rates.0.over_down(age)),
            latest: self.latest + (age + rates.1.over_up(age)),
        }
    }

    /// Returns the intersection of two bounds for the same instant; `None` if they do not overlap.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        debug_assert_eq!(self.at, other.at);
        let earliest = self.earliest.max(other.earliest);
        let latest = self.latest.min(other.latest);
        (earliest <= latest).then_some(Self {
            at: self.at,
            earliest,
            latest,
        })
    }

    /// Returns the middle between `earliest` and `latest`.
    pub fn middle(&self) -> Instant<TimelineTime> {
        self.earliest + Duration::from_ns(self.width().as_ns() / 2)
    }

    /// Returns the length from `earliest` to `latest`.
    pub fn width(&self) -> Duration {
        self.latest - self.earliest
    }
}
