//! Civil time as text: RFC 3339 in UTC with nanoseconds.
//!
//! Days are counted by the proleptic Gregorian calendar, in eras of 400 years that begin on 1
//! March, so that the leap day is the last day of a year (Howard Hinnant, "chrono-Compatible
//! Low-Level Date Algorithms"). A calendar library would have more functions than a manifest needs.

use timeloom_time::{Instant, Utc};

/// Formats an instant as `2026-06-03T00:00:22.500000000Z`.
pub fn format_rfc3339(at: Instant<Utc>) -> String {
    let (days, ns) = (
        at.as_ns().div_euclid(NS_PER_DAY),
        at.as_ns().rem_euclid(NS_PER_DAY),
    );
    let (year, month, day) = civil_from_days(days);
    let (seconds, fraction) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:09}Z")
}

/// Parses the format of [`format_rfc3339`], and any other RFC 3339 time from 1678 to 2261. A time
/// with an offset is converted to UTC.
pub fn parse_rfc3339(text: &str) -> Result<Instant<Utc>, ParseCivilError> {
    parse(text).ok_or_else(|| ParseCivilError {
        text: text.to_owned(),
    })
}

fn parse(text: &str) -> Option<Instant<Utc>> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 {
        return None;
    }
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| bytes[at] != byte)
        || !matches!(bytes[10], b'T' | b't' | b' ')
    {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse::<i64>().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let days = days_from_civil(year, month, day);
    // Invalid dates such as 31 April are rejected: converted to days and back, they differ.
    if civil_from_days(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &text[19..];
    let mut fraction_ns = 0;
    if let Some(digits) = rest.strip_prefix('.') {
        let end = digits.find(|c: char| !c.is_ascii_digit())?;
        if end == 0 || end > 9 {
            return None;
        }
        fraction_ns = digits[..end].parse::<i64>().ok()? * 10i64.pow(9 - end as u32);
        rest = &digits[end..];
    }
    let offset_s = match rest.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let (hours, minutes) = (number(at, at + 2)?, number(at + 3, at + 5)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset_s;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction_ns)
        .map(Instant::from_ns)
}

/// A text that is not a civil time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a time as in `2026-06-03T00:00:00Z`")]
pub struct ParseCivilError {
    text: String,
}

/// Returns year, month and day of the day `days` after 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the number of days from 1970-01-01 to the given date.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_TO_1970
}

const NS_PER_DAY: i64 = 86_400 * 1_000_000_000;
const DAYS_PER_ERA: i64 = 146_097;
/// Number of days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

/// Serde functions for an instant as RFC 3339 text, for `#[serde(with = "civil::serde_utc")]`.
pub(crate) mod serde_utc {
    use super::*;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(
        at: &Instant<Utc>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_rfc3339(*at))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Instant<Utc>, D::Error> {
        parse_rfc3339(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Serde functions for an optional instant as RFC 3339 text.
pub(crate) mod serde_utc_option {
    use super::*;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(
        at: &Option<Instant<Utc>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.serialize_some(&format_rfc3339(*at)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Instant<Utc>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse_rfc3339(&text).map_err(D::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_days() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00.000000000Z", 0),
            ("2000-02-29T23:59:59.000000000Z", 951_868_799),
            ("2019-06-03T00:00:00.000000000Z", 1_559_520_000),
            ("1969-12-31T23:59:59.000000000Z", -1),
        ] {
            let at = Instant::from_ns(seconds * 1_000_000_000);
            assert_eq!(format_rfc3339(at), text);
            assert_eq!(parse_rfc3339(text), Ok(at));
        }
        assert_eq!(
            parse_rfc3339("2019-06-03T02:30:00+02:30"),
            parse_rfc3339("2019-06-03T00:00:00.0Z")
        );
        for bad in [
            "",
            "2019-02-29T00:00:00Z",
            "2019-06-03T24:00:00Z",
            "2019-06-03T00:00:00",
            "2019-06-03T00:00:00.Z",
        ] {
            assert!(parse_rfc3339(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn written_dates_parse_to_the_same(ns in i64::MIN + 1..i64::MAX) {
            let at = Instant::from_ns(ns);
            prop_assert_eq!(parse_rfc3339(&format_rfc3339(at)), Ok(at));
        }
    }
}
