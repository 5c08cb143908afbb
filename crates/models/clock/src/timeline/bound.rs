//! Where true time lay at one instant of the core clock.

use timeloom_time::{Duration, Instant};

use crate::{Core, RateError, Timeline};

/// When the core clock showed exactly `at`, the timeline lay between
/// `earliest` and `latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The instant on the core clock.
    pub at: Instant<Core>,
    /// The timeline was not before this.
    pub earliest: Instant<Timeline>,
    /// The timeline was not after this.
    pub latest: Instant<Timeline>,
}

impl Bound {
    /// What is known at a later instant, when the timeline runs against
    /// the core clock at a rate error within `rates` (lowest, highest). An
    /// instant before `at` leaves the bound as it is.
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

    /// What both say, of bounds at one instant. `None` when they contradict
    /// each other.
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

    /// The middle.
    pub fn middle(&self) -> Instant<Timeline> {
        self.earliest + Duration::from_ns(self.width().as_ns() / 2)
    }

    /// From the earliest to the latest.
    pub fn width(&self) -> Duration {
        self.latest - self.earliest
    }
}
