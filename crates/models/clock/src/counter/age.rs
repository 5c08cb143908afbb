//! Elapsed time with a resolution finer than a nanosecond.

use core::ops::{Add, Sub};

use timeloom_time::{Duration, Rate};

/// Elapsed time of a counter, in 64.64 fixed-point nanoseconds.
///
/// The paper keeps `age_time_ns` in whole nanoseconds; every frequency change then loses up to one
/// nanosecond. With the fraction kept, a change loses at most 2^-64 ns per counted cycle, and a
/// counter above 1 GHz still gives different ages for different cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Age(u128);

impl Age {
    /// Zero elapsed time.
    pub const ZERO: Self = Self(0);

    /// Returns the time of `cycles` cycles with this `period`. The product is exact as long as it
    /// is below 2^64 ns (584 years), and saturates there.
    pub const fn of_cycles(cycles: u64, period: Rate) -> Self {
        Self(period.to_bits().saturating_mul(cycles as u128))
    }

    /// Converts a length of time; a negative length becomes 0.
    pub fn from_duration(length: Duration) -> Self {
        Self(u128::from(length.as_unsigned_ns()) << 64)
    }

    /// Returns this age divided by `of`, rounded down.
    pub(super) const fn part(self, of: u128) -> Self {
        Self(self.0 / of)
    }

    /// Returns the age in whole nanoseconds, rounded down; saturates at 292 years.
    pub fn as_duration(self) -> Duration {
        Duration::from_ns(i64::try_from(self.0 >> 64).unwrap_or(i64::MAX))
    }

    /// Returns the age in whole nanoseconds, rounded up; saturates at 292 years.
    pub fn as_duration_up(self) -> Duration {
        let ceiling = self.0.saturating_add(u128::from(u64::MAX)) >> 64;
        Duration::from_ns(i64::try_from(ceiling).unwrap_or(i64::MAX))
    }
}

impl Add for Age {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Age {
    type Output = Self;
    /// Returns the difference; zero if `other` is greater, since an age is never negative.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
