//! Bit rates.

use std::fmt;
use std::str::FromStr;

use super::ParseWordError;

/// Bit rate of a link, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate {
    bits_per_s: u64,
}

/// Units with their values in bits per second, the largest first. They are decimal, as is usual for
/// links.
const BIT_UNITS: [(&str, u64); 4] = [
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("bit/s", 1),
];

impl BitRate {
    /// Returns a rate of `bits_per_s` bits per second. Returns `None` for 0, at which nothing would
    /// arrive.
    pub const fn from_bits_per_s(bits_per_s: u64) -> Option<Self> {
        if bits_per_s == 0 {
            None
        } else {
            Some(Self { bits_per_s })
        }
    }

    /// Returns the rate in bits per second, which is at least 1.
    pub const fn as_bits_per_s(self) -> u64 {
        self.bits_per_s
    }
}

impl FromStr for BitRate {
    type Err = ParseWordError;

    /// Parses a decimal number and a unit, with an optional blank between them. The result is exact
    /// to the bit.
    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let fail = || {
            ParseWordError(format!(
                "`{text}` is not a bit rate: write a number and bit/s, kbit/s, Mbit/s or Gbit/s, as in `100 Mbit/s`"
            ))
        };
        let (number, factor) = BIT_UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?.trim(), *factor)))
            .ok_or_else(fail)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| {
            let plain = part.len() <= 20 && part.bytes().all(|byte| byte.is_ascii_digit());
            if plain {
                part.parse::<u128>().ok()
            } else {
                None
            }
        };
        let whole = digits(whole).ok_or_else(fail)?;
        let part = digits(fraction).ok_or_else(fail)? * u128::from(factor);
        let place = 10u128.pow(u32::try_from(fraction.len()).map_err(|_| fail())?);
        if part % place != 0 {
            return Err(ParseWordError(format!(
                "`{text}` is finer than one bit per second"
            )));
        }
        u64::try_from(whole * u128::from(factor) + part / place)
            .ok()
            .and_then(Self::from_bits_per_s)
            .ok_or_else(|| {
                ParseWordError(format!("`{text}` must be at least 1 bit/s and below 2^64"))
            })
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = BIT_UNITS
            .into_iter()
            .find(|(_, factor)| self.bits_per_s.is_multiple_of(*factor))
            .unwrap_or(("bit/s", 1));
        write!(f, "{} {unit}", self.bits_per_s / factor)
    }
}
