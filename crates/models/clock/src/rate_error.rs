//! Signed deviation of a clock's rate from 1.

use core::fmt;
use core::ops::{Add, Neg, Sub};
use core::str::FromStr;

use timeloom_time::convert::clamped_i64;
use timeloom_time::{Duration, Rate};

/// Signed, small difference between a rate and 1, in parts per 10^12 (picoseconds per second).
///
/// [`Rate`] is non-negative, with a resolution of 2^-64; data sheets of oscillators and servos
/// state a signed difference. Methods that multiply by a length of time say how they round, because
/// the products are used in error bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RateError(i64);

impl RateError {
    /// No deviation: the nominal rate.
    pub const ZERO: Self = Self(0);

    /// Returns a deviation of `ppt` parts per 10^12.
    pub const fn from_ppt(ppt: i64) -> Self {
        Self(ppt)
    }

    /// Returns a deviation of `ppb` parts per 10^9; saturates.
    pub const fn from_ppb(ppb: i64) -> Self {
        Self(ppb.saturating_mul(1_000))
    }

    /// Returns the deviation in parts per 10^12.
    pub const fn as_ppt(self) -> i64 {
        self.0
    }

    /// Returns the greatest rate error `e` with `e * over <= length`; saturates. `over` must be
    /// positive.
    pub fn quotient_down(length: Duration, over: Duration) -> Self {
        debug_assert!(over > Duration::ZERO);
        let scaled = i128::from(length.as_ns()) * PER_ONE;
        Self(saturate(scaled.div_euclid(i128::from(over.as_ns().max(1)))))
    }

    /// Returns the least rate error `e` with `e * over >= length`; saturates. `over` must be
    /// positive.
    pub fn quotient_up(length: Duration, over: Duration) -> Self {
        -Self::quotient_down(-length, over)
    }

    /// Returns the time that a clock with this error gains in `length`, rounded towards −∞.
    pub fn over_down(self, length: Duration) -> Duration {
        let product = i128::from(self.0) * i128::from(length.as_ns());
        Duration::from_ns(saturate(product.div_euclid(PER_ONE)))
    }

    /// Returns the time that a clock with this error gains in `length`, rounded towards +∞.
    pub fn over_up(self, length: Duration) -> Duration {
        -Self(-self.0).over_down(length)
    }

    /// Returns `1 + self` as a rate, rounded down to a multiple of 2^-64; 0 if the sum is negative.
    pub fn to_rate(self) -> Rate {
        let one = 1i128 << 64;
        // The product would overflow for an |self| near 2^63; a rate error beyond ± 1 is invalid
        // anyway.
        let bounded = i128::from(self.0).clamp(-PER_ONE, PER_ONE);
        let bits = one + ((bounded << 64).div_euclid(PER_ONE));
        Rate::from_bits(bits.max(0).cast_unsigned())
    }

    /// Returns the error of the inverse rate, `1 / (1 + e) - 1`, with its absolute value rounded
    /// up. This is the maximum rate error of *true* time relative to a clock that is itself off by
    /// `self`. `self` must be above −1.
    pub fn of_inverse_outward(self) -> Self {
        let error = i128::from(self.0);
        let denominator = PER_ONE + error;
        assert!(
            denominator > 0,
            "a clock that stands or runs backwards has no inverse"
        );
        let magnitude = (error.abs() * PER_ONE + denominator - 1) / denominator;
        Self(saturate(if error > 0 { -magnitude } else { magnitude }))
    }
}

/// Rate errors are in parts of this number.
const PER_ONE: i128 = 1_000_000_000_000;

fn saturate(value: i128) -> i64 {
    clamped_i64(value).max(i64::MIN + 1)
}

impl Add for RateError {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for RateError {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for RateError {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

/// Units with their values in parts per 10^12, the largest first.
const UNITS: [(&str, i64); 3] = [("ppm", 1_000_000), ("ppb", 1_000), ("ppt", 1)];

/// Error for a text that is not a rate error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRateError {
    /// The text has another form, or the number is too large.
    #[error(
        "`{0}` is not a frequency error: write a number and ppm, ppb or ppt, as in `-12.5 ppm`"
    )]
    Form(String),
    /// The number is no multiple of 10^-12.
    #[error("`{0}` is finer than one ppt")]
    TooFine(String),
}

impl FromStr for RateError {
    type Err = ParseRateError;

    /// Parses a signed decimal number and a unit, with an optional blank between them. The result
    /// is exact to 10^-12.
    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let fail = || ParseRateError::Form(text.to_owned());
        let (number, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?.trim(), *factor)))
            .ok_or_else(fail)?;
        let (sign, number) = match number.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| {
            let plain = !part.is_empty()
                && part.len() <= 12
                && part.bytes().all(|byte| byte.is_ascii_digit());
            if plain {
                part.parse::<i128>().ok()
            } else {
                None
            }
        };
        let whole = digits(whole).ok_or_else(fail)?;
        let part = digits(fraction).ok_or_else(fail)? * i128::from(factor);
        let place = 10i128.pow(u32::try_from(fraction.len()).map_err(|_| fail())?);
        if part % place != 0 {
            return Err(ParseRateError::TooFine(text.to_owned()));
        }
        i64::try_from(sign * (whole * i128::from(factor) + part / place))
            .map(Self)
            .map_err(|_| fail())
    }
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS
            .into_iter()
            .find(|(_, factor)| self.0 % factor == 0)
            .unwrap_or(("ppt", 1));
        write!(f, "{} {unit}", self.0 / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fifty_ppm_over_a_second_is_fifty_microseconds() {
        let drift = RateError::from_ppb(50_000);
        assert_eq!(drift.over_up(Duration::from_s(1)), Duration::from_us(50));
        assert_eq!(drift.to_rate().apply(1_000_000_000), 1_000_049_999);
        // 1 / (1 - 50 ppm) - 1 = 50.0025 ppm.
        assert_eq!((-drift).of_inverse_outward().as_ppt(), 50_002_501);
    }

    #[test]
    fn written_frequency_errors_parse_to_the_same() {
        for (text, ppt) in [
            ("50 ppm", 50_000_000),
            ("-12.5ppm", -12_500_000),
            ("+3 ppb", 3_000),
            ("0.001 ppb", 1),
            ("0 ppm", 0),
        ] {
            let error: RateError = text.parse().expect(text);
            assert_eq!(error.as_ppt(), ppt, "{text}");
            assert_eq!(error.to_string().parse(), Ok(error), "{text}");
        }
        for text in [
            "50",
            "ppm",
            "- 5 ppm",
            "1.2345678 ppm",
            "1e3 ppm",
            "0.0001 ppb",
        ] {
            assert!(text.parse::<RateError>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn products_and_quotients_round_to_the_side_they_say(
            ppt in -1_000_000_000i64..1_000_000_000,
            ns in 1i64..1 << 50,
            length in -1i64 << 40..1 << 40,
        ) {
            let (error, over) = (RateError::from_ppt(ppt), Duration::from_ns(ns));
            let (down, up) = (error.over_down(over), error.over_up(over));
            prop_assert!(down <= up && up - down <= Duration::from_ns(1));
            let length = Duration::from_ns(length);
            prop_assert!(RateError::quotient_down(length, over).over_down(over) <= length);
            prop_assert!(RateError::quotient_up(length, over).over_up(over) >= length);
        }
    }
}
