//! An instant that is not known exactly.

use core::fmt;

use timeloom_time::{Duration, Instant, Scale};

/// `[earliest, estimate, latest]`: true time lies between the outer two.
///
/// It cannot be inverted: the only constructor takes lengths to both sides of
/// the estimate. (An inverted interval of another library was seen in a
/// production cluster.) It need not be symmetric.
pub struct Interval<S: Scale> {
    estimate: Instant<S>,
    below: Duration,
    above: Duration,
}

impl<S: Scale> Interval<S> {
    /// From the estimate and how far true time may lie below and above it.
    /// Negative lengths count as none; the ends saturate.
    pub fn around(estimate: Instant<S>, below: Duration, above: Duration) -> Self {
        Self {
            estimate,
            below: below.max(Duration::ZERO),
            above: above.max(Duration::ZERO),
        }
    }

    /// True time is not before this.
    pub fn earliest(&self) -> Instant<S> {
        self.estimate - self.below
    }

    /// The best single value.
    pub fn estimate(&self) -> Instant<S> {
        self.estimate
    }

    /// True time is not after this.
    pub fn latest(&self) -> Instant<S> {
        self.estimate + self.above
    }

    /// How far before the estimate true time may lie.
    pub fn below(&self) -> Duration {
        self.below
    }

    /// How far after the estimate true time may lie.
    pub fn above(&self) -> Duration {
        self.above
    }

    /// From the earliest to the latest.
    pub fn width(&self) -> Duration {
        self.below + self.above
    }

    /// Whether `instant` may be the true one.
    pub fn contains(&self, instant: Instant<S>) -> bool {
        self.earliest() <= instant && instant <= self.latest()
    }

    /// This interval shifted by a length that is known exactly.
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
    use crate::Timeline;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_numbers_make_it_inverted(estimate in any::<i64>(), below in any::<i64>(), above in any::<i64>()) {
            let ns = Duration::from_ns;
            let interval = Interval::<Timeline>::around(Instant::from_ns(estimate), ns(below), ns(above));
            prop_assert!(interval.earliest() <= interval.estimate());
            prop_assert!(interval.estimate() <= interval.latest());
            prop_assert!(interval.contains(interval.estimate()));
        }
    }
}
