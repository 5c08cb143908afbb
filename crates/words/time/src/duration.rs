//! A signed length of time.

use core::ops::{Add, AddAssign, Neg, Sub, SubAssign};

/// A signed length of time in whole nanoseconds, ± 292 years.
///
/// Arithmetic saturates instead of wrapping: a deadline too far away to
/// represent stays "very far away" and never becomes "in the past".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(i64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest representable length; represents "for ever".
    pub const MAX: Self = Self(i64::MAX);

    /// A length of `ns` nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// A length of `us` microseconds.
    pub const fn from_us(us: i64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// A length of `ms` milliseconds.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A length of `s` seconds.
    pub const fn from_s(s: i64) -> Self {
        Self(s.saturating_mul(NS_PER_S))
    }

    /// From whole seconds and nanoseconds, as in the kernel's `timespec`.
    pub const fn from_s_ns(s: i64, ns: i64) -> Self {
        Self(s.saturating_mul(NS_PER_S).saturating_add(ns))
    }

    /// The length in nanoseconds.
    pub const fn as_ns(self) -> i64 {
        self.0
    }

    /// The length in seconds, rounded to the nearest double. For display and plots, not for
    /// arithmetic.
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
    /// Lengths beyond 292 years saturate.
    fn from(length: core::time::Duration) -> Self {
        Self::from_ns(i64::try_from(length.as_nanos()).unwrap_or(i64::MAX))
    }
}
