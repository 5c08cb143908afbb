//! Lengths of time as text: `10 ms`, `22.5s`, `1 min`.

use core::fmt;
use core::str::FromStr;

use crate::Duration;

/// Error for a text that is not a length of time. The message describes the accepted format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseTimeError {
    text: String,
    reason: &'static str,
}

impl fmt::Display for ParseTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a length of time: {}",
            self.text, self.reason
        )
    }
}

impl std::error::Error for ParseTimeError {}

/// Accepted units, each with its length in nanoseconds.
const UNITS: [(&str, i64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for Duration {
    type Err = ParseTimeError;

    /// Parses a decimal number, an optional space and a unit. A number with digits below one
    /// nanosecond is an error and is not rounded.
    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        let fail = |reason| ParseTimeError {
            text: text.to_owned(),
            reason,
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
            .ok_or_else(|| fail("it needs a unit: ns, us, ms, s, min or h, as in `10 ms`"))?;
        let (number, unit) = trimmed.split_at(split);
        let (_, unit_ns) = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim())
            .ok_or_else(|| fail("the unit must be ns, us, ms, s, min or h, as in `10 ms`"))?;
        let (negative, digits) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() || digits.ends_with('.') || digits.contains('-') {
            return Err(fail("the number must look like `10` or `22.5`"));
        }
        let whole: i128 = whole
            .parse()
            .map_err(|_| fail("the number is too large or malformed"))?;
        let too_long = || fail("it is longer than 292 years");
        let mut total = whole
            .checked_mul(i128::from(*unit_ns))
            .ok_or_else(too_long)?;
        let mut place = i128::from(*unit_ns);
        for digit in fraction.chars() {
            let value = digit
                .to_digit(10)
                .ok_or_else(|| fail("the number must look like `10` or `22.5`"))?;
            if place % 10 != 0 {
                if value != 0 {
                    return Err(fail("it is finer than a nanosecond"));
                }
                continue;
            }
            place /= 10;
            total += i128::from(value) * place;
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed)
            .map(Self::from_ns)
            .map_err(|_| too_long())
    }
}

impl fmt::Display for Duration {
    /// Formats the length exactly, in the shortest form that [`FromStr`] parses to the same value:
    /// `90 s`, `22.5 s`, `10 ms`, `17 ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.as_ns();
        let (name, unit) = match ns.unsigned_abs() {
            0 => ("s", 1),
            n if n < 1_000 => ("ns", 1),
            n if n < 1_000_000 => ("us", 1_000),
            n if n < 1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        let sign = if ns < 0 { "-" } else { "" };
        let (whole, rest) = (ns.unsigned_abs() / unit, ns.unsigned_abs() % unit);
        if rest == 0 {
            return write!(f, "{sign}{whole} {name}");
        }
        let width = unit.ilog10() as usize;
        let fraction = format!("{rest:0width$}");
        write!(f, "{sign}{whole}.{} {name}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_with_units_are_parsed() {
        for (text, ns) in [
            ("10 ms", 10_000_000),
            ("22.5s", 22_500_000_000),
            ("1 min", 60_000_000_000),
            ("-3 us", -3_000),
            ("0.25 ns", -1),
            ("5", -1),
            ("5 parsecs", -1),
            (". s", -1),
            ("1-2 s", -1),
            ("99999999999999999999 h", -1),
            ("99999999999999999999999999999999999999 h", -1),
        ] {
            match text.parse::<Duration>() {
                Ok(got) => assert_eq!(got.as_ns(), ns, "{text}"),
                Err(error) => assert_eq!(ns, -1, "{error}"),
            }
        }
    }

    proptest! {
        #[test]
        fn written_lengths_parse_to_the_same(ns in any::<i64>()) {
            let length = Duration::from_ns(ns);
            prop_assert_eq!(length.to_string().parse::<Duration>().unwrap(), length);
        }
    }
}
