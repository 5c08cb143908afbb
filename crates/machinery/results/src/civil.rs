//! Civil time as text: RFC 3339 in UTC with nanoseconds.

use jiff::Timestamp;
use timeloom_time::{Instant, Utc};

/// Formats an instant as `2026-06-03T00:00:22.500000000Z`.
pub fn format_rfc3339(at: Instant<Utc>) -> String {
    let stamp = Timestamp::from_nanosecond(at.as_ns().into());
    format!("{:.9}", stamp.expect("an instant lies in 1677 to 2262"))
}

/// Parses the format of [`format_rfc3339`], and any other RFC 3339 time from 1678 to 2261. A time
/// with an offset is converted to UTC.
pub fn parse_rfc3339(text: &str) -> Result<Instant<Utc>, ParseCivilError> {
    let stamp: Option<Timestamp> = text.parse().ok();
    let ns = stamp.and_then(|stamp| i64::try_from(stamp.as_nanosecond()).ok());
    ns.map(Instant::from_ns).ok_or_else(|| ParseCivilError {
        text: text.to_owned(),
    })
}

/// A text that is not a civil time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a time as in `2026-06-03T00:00:00Z`")]
pub struct ParseCivilError {
    text: String,
}

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
