//! Lengths of time in the format of `correctionField`.

use core::fmt;
use core::ops::{Add, AddAssign, Neg, Sub};
use core::str::FromStr;

/// A signed length of time in units of 2^-16 ns (IEEE 1588-2008, 5.3.2); the range is ± 39 hours.
/// Sums are sums of integers and therefore exact, so that the contribution of each transparent
/// clock can be recovered from the sum to the last bit.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeInterval(
    /// Scaled nanoseconds: ns · 2^16.
    pub i64,
);

impl TimeInterval {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// "Too big to be represented" (13.3.2.7); adding to this value does not change it.
    pub const TOO_BIG: Self = Self(i64::MAX);

    /// Returns an interval of `ns` whole nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns.saturating_mul(1 << 16))
    }

    /// Returns the interval in nanoseconds, rounded to the nearest.
    pub const fn round_ns(self) -> i64 {
        self.0.saturating_add(1 << 15) >> 16
    }

    /// Returns the interval in nanoseconds as a double, for display and servos.
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

/// Formats nanoseconds as an exact decimal number; a multiple of 2^-16 has up to sixteen digits
/// after the point. At least one digit follows the point, so that programs that infer column types
/// from text choose a floating-point type.
impl fmt::Display for TimeInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, mut rest) = (self.0.unsigned_abs() >> 16, self.0.unsigned_abs() & 0xffff);
        write!(f, "{sign}{whole}.")?;
        loop {
            rest *= 10;
            write!(f, "{}", rest >> 16)?;
            rest &= 0xffff;
            if rest == 0 {
                return Ok(());
            }
        }
    }
}

/// Error for a text that is not an exact multiple of 2^-16 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoInterval;

impl fmt::Display for NoInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a decimal number of whole 2^-16 ns")
    }
}

impl core::error::Error for NoInterval {}

/// Parses the output of [`TimeInterval`]'s `Display`. The conversion is exact: nothing is rounded,
/// and exponents are not accepted.
impl FromStr for TimeInterval {
    type Err = NoInterval;

    fn from_str(text: &str) -> Result<Self, NoInterval> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !are_digits(whole) || !are_digits(fraction) || fraction.len() > FRACTION_DIGITS {
            return Err(NoInterval);
        }
        let whole: u64 = whole.parse().map_err(|_| NoInterval)?;
        let rest: u128 = fraction.parse().map_err(|_| NoInterval)?;
        let scaled = rest << 16;
        let unit = fraction.bytes().fold(1u128, |unit, _| unit * 10);
        if !scaled.is_multiple_of(unit) {
            return Err(NoInterval);
        }
        let size = (i128::from(whole) << 16) + (scaled / unit).cast_signed();
        let value = if negative { -size } else { size };
        i64::try_from(value).map(Self).map_err(|_| NoInterval)
    }
}

/// Number of decimal digits after the point of 2^-16 = 0.0000152587890625.
const FRACTION_DIGITS: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nanoseconds_are_told_to_the_last_bit() {
        for (scaled, text) in [
            (0, "0.0"),
            (1, "0.0000152587890625"),
            (-1, "-0.0000152587890625"),
            (300 << 16 | 1 << 15, "300.5"),
            (i64::MAX, "140737488355327.9999847412109375"),
            (i64::MIN, "-140737488355328.0"),
        ] {
            assert_eq!(TimeInterval(scaled).to_string(), text);
            assert_eq!(text.parse(), Ok(TimeInterval(scaled)));
        }
        assert_eq!("100".parse(), Ok(TimeInterval::from_ns(100)));
        for bad in [
            "",
            "-",
            ".",
            ".5",
            "5.",
            "+1",
            "1e3",
            "NaN",
            "0.1",
            "--1",
            "1.-5",
            " 1",
            "140737488355328.0",
            "0.00001525878906250",
            "99999999999999999999",
        ] {
            assert_eq!(bad.parse::<TimeInterval>(), Err(NoInterval), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn displayed_intervals_parse_to_the_same(scaled in any::<i64>()) {
            let interval = TimeInterval(scaled);
            prop_assert_eq!(interval.to_string().parse(), Ok(interval));
        }
    }
}
