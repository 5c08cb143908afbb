//! Lengths of time as `correctionField` carries them.

use core::fmt;
use core::ops::{Add, AddAssign, Neg, Sub};

/// A signed length of time in units of 2^-16 ns (IEEE 1588-2008, 5.3.2):
/// ± 39 hours. Sums are exact integers, so that what a chain of transparent
/// clocks adds can be taken apart again to the last bit.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeInterval(
    /// Scaled nanoseconds: ns · 2^16.
    pub i64,
);

impl TimeInterval {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// "Too big to be represented" (13.3.2.7); it stays so in sums.
    pub const TOO_BIG: Self = Self(i64::MAX);

    /// Whole nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns.saturating_mul(1 << 16))
    }

    /// The whole nanoseconds, rounded to the nearest.
    pub const fn round_ns(self) -> i64 {
        self.0.saturating_add(1 << 15) >> 16
    }

    /// Nanoseconds as a double, for people and servos.
    pub const fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 65536.0
    }
}

impl Add for TimeInterval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        if self == Self::TOO_BIG || other == Self::TOO_BIG {
            return Self::TOO_BIG;
        }
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for TimeInterval {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for TimeInterval {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        if self == Self::TOO_BIG || other == Self::TOO_BIG {
            return Self::TOO_BIG;
        }
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for TimeInterval {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl core::iter::Sum for TimeInterval {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Debug for TimeInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.as_ns_f64())
    }
}
