//! Frequency errors of oscillators.

use std::fmt;
use std::str::FromStr;

use super::ParseWordError;

/// Difference of a frequency from its nominal value, in parts per 10^12; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrequencyError {
    ppt: i64,
}

/// Units with their values in parts per 10^12, the largest first.
const UNITS: [(&str, i64); 3] = [("ppm", 1_000_000), ("ppb", 1_000), ("ppt", 1)];

impl FrequencyError {
    /// Returns a difference of `ppt` parts per 10^12.
    pub const fn from_ppt(ppt: i64) -> Self {
        Self { ppt }
    }

    /// Returns the difference in parts per 10^12.
    pub const fn as_ppt(self) -> i64 {
        self.ppt
    }
}

impl FromStr for FrequencyError {
    type Err = ParseWordError;

    /// Parses a signed decimal number and a unit, with an optional blank between them. The result
    /// is exact to 10^-12.
    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let fail = || {
            ParseWordError(format!(
                "`{text}` is not a frequency error: write a number and ppm, ppb or ppt, as in `-12.5 ppm`"
            ))
        };
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
            return Err(ParseWordError(format!("`{text}` is finer than one ppt")));
        }
        i64::try_from(sign * (whole * i128::from(factor) + part / place))
            .map(Self::from_ppt)
            .map_err(|_| fail())
    }
}

impl fmt::Display for FrequencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS
            .into_iter()
            .find(|(_, factor)| self.ppt % factor == 0)
            .unwrap_or(("ppt", 1));
        write!(f, "{} {unit}", self.ppt / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_frequency_errors_parse_to_the_same() {
        for (text, ppt) in [
            ("50 ppm", 50_000_000),
            ("-12.5ppm", -12_500_000),
            ("+3 ppb", 3_000),
            ("0.001 ppb", 1),
            ("0 ppm", 0),
        ] {
            let error: FrequencyError = text.parse().expect(text);
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
            assert!(text.parse::<FrequencyError>().is_err(), "{text}");
        }
    }
}
