//! A signed length of time.

use core::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use crate::convert::saturating_i64;

/// A signed length of time in whole nanoseconds; the range is ± 292 years.
///
/// Arithmetic saturates instead of wrapping: a deadline that is too far away to be represented
/// stays in the distant future and never becomes an instant in the past.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(i64);

impl Duration {
    /// Zero nanoseconds.
    pub const ZERO: Self = Self(0);
    /// The longest representable length, 292 years; means "for ever".
    pub const MAX: Self = Self(i64::MAX);

    /// Returns a length of `ns` nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// Returns a length of `us` microseconds; saturates.
    pub const fn from_us(us: i64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Returns a length of `ms` milliseconds; saturates.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Returns a length of `s` seconds; saturates.
    pub const fn from_s(s: i64) -> Self {
        Self(s.saturating_mul(NS_PER_S))
    }

    /// Returns the sum of `s` seconds and `ns` nanoseconds, the two fields of the kernel's
    /// `timespec`.
    pub const fn from_s_ns(s: i64, ns: i64) -> Self {
        Self(s.saturating_mul(NS_PER_S).saturating_add(ns))
    }

    /// Returns the length in nanoseconds.
    pub const fn as_ns(self) -> i64 {
        self.0
    }

    /// Returns the length in nanoseconds; 0 if it is negative.
    pub const fn as_unsigned_ns(self) -> u64 {
        if self.0 < 0 {
            0
        } else {
            self.0.cast_unsigned()
        }
    }

    /// Returns a length of `ns` nanoseconds, rounded towards zero; saturates, and is zero for a
    /// value that is not a number.
    pub const fn from_ns_f64(ns: f64) -> Self {
        Self(saturating_i64(ns))
    }

    /// Returns the length in seconds, rounded to the nearest double. Meant for display and plots,
    /// not for arithmetic.
    pub const fn as_s_f64(self) -> f64 {
        self.0 as f64 / NS_PER_S as f64
    }

    /// Returns true if the length is below zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

pub(crate) const NS_PER_S: i64 = 1_000_000_000;

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Duration {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl core::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Add::add)
    }
}

impl core::fmt::Debug for Duration {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ns", self.0)
    }
}
impl From<core::time::Duration> for Duration {
    /// Converts a length of the standard library; lengths above 292 years become [`Duration::MAX`].
    fn from(length: core::time::Duration) -> Self {
        Self::from_ns(i64::try_from(length.as_nanos()).unwrap_or(i64::MAX))
    }
}
