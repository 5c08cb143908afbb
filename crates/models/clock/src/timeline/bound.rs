//! Bound on true time at one instant of the core clock.

use timeloom_time::{Duration, Instant};

use crate::{Core, RateError, Timeline};

/// Bound on the timeline: it was between `earliest` and `latest` when the core clock showed exactly
/// `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Instant on the core clock.
    pub at: Instant<Core>,
    /// Earliest possible time on the timeline.
    pub earliest: Instant<Timeline>,
    /// Latest possible time on the timeline.
    pub latest: Instant<Timeline>,
}

impl Bound {
    /// Returns the bound at a later instant, if the timeline runs against the core clock at a rate
    /// error within `rates` (lowest, highest). An instant before `at` leaves the bound unchanged.
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

    /// Returns the intersection of two bounds at one instant. `None` if they contradict each other.
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

    /// Returns the middle.
    pub fn middle(&self) -> Instant<Timeline> {
        self.earliest + Duration::from_ns(self.width().as_ns() / 2)
    }

    /// Returns the length from the earliest to the latest.
    pub fn width(&self) -> Duration {
        self.latest - self.earliest
    }
}
