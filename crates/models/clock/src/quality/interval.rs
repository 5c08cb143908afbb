//! Instant with an uncertainty interval.

use core::fmt;

use timeloom_time::{Duration, Instant, Scale};

/// Interval `[earliest, estimate, latest]`: true time lies between the first and the last.
///
/// An interval cannot be inverted, because its only constructor takes the distances to both sides
/// of the estimate. (A production cluster received an inverted interval from another library.) The
/// two distances may differ.
pub struct Interval<S: Scale> {
    estimate: Instant<S>,
    below: Duration,
    above: Duration,
}

impl<S: Scale> Interval<S> {
    /// Returns the interval around an estimate. True time is at most `below` before the estimate
    /// and at most `above` after it. Negative distances count as zero; the ends saturate.
    pub fn around(estimate: Instant<S>, below: Duration, above: Duration) -> Self {
        Self {
            estimate,
            below: below.max(Duration::ZERO),
            above: above.max(Duration::ZERO),
        }
    }

    /// Returns the earliest possible true time.
    pub fn earliest(&self) -> Instant<S> {
        self.estimate - self.below
    }

    /// Returns the best estimate of true time.
    pub fn estimate(&self) -> Instant<S> {
        self.estimate
    }

    /// Returns the latest possible true time.
    pub fn latest(&self) -> Instant<S> {
        self.estimate + self.above
    }

    /// Returns the distance from the earliest possible true time to the estimate.
    pub fn below(&self) -> Duration {
        self.below
    }

    /// Returns the distance from the estimate to the latest possible true time.
    pub fn above(&self) -> Duration {
        self.above
    }

    /// Returns the length from the earliest to the latest possible true time.
    pub fn width(&self) -> Duration {
        self.below + self.above
    }

    /// Returns true if true time may be `instant`.
    pub fn contains(&self, instant: Instant<S>) -> bool {
        self.earliest() <= instant && instant <= self.latest()
    }

    /// Returns the interval shifted by the exactly known length `by`.
    #[must_use]
    pub fn shifted(&self, by: Duration) -> Self {
        Self {
            estimate: self.estimate + by,
            ..*self
        }
    }
}

impl<S: Scale> Clone for Interval<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: Scale> Copy for Interval<S> {}
impl<S: Scale> PartialEq for Interval<S> {
    fn eq(&self, other: &Self) -> bool {
        (self.estimate, self.below, self.above) == (other.estimate, other.below, other.above)
    }
}
impl<S: Scale> Eq for Interval<S> {}
impl<S: Scale> fmt::Debug for Interval<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} −{} +{}", self.estimate, self.below, self.above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimelineTime;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_numbers_make_it_inverted(estimate in any::<i64>(), below in any::<i64>(), above in any::<i64>()) {
            let ns = Duration::from_ns;
            let interval = Interval::<TimelineTime>::around(Instant::from_ns(estimate), ns(below), ns(above));
            prop_assert!(interval.earliest() <= interval.estimate());
            prop_assert!(interval.estimate() <= interval.latest());
            prop_assert!(interval.contains(interval.estimate()));
        }
    }
}
