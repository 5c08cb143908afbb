//! Durations and civil time, whose types are defined in another crate.

use serde::Serializer;
use timeloom_time::{Duration, Instant, Utc};

use super::ParseWordError;
use crate::read::{Context, Form};
use crate::schema::text_schema;
use crate::tree::{Node, Value};

/// Parses a duration. A text that is far longer than any valid one is rejected.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, ParseWordError> {
    const LONGEST: usize = 24;
    if text.trim().len() > LONGEST {
        return Err(ParseWordError(format!(
            "`{text}` is not a length of time: it is longer than 292 years"
        )));
    }
    text.trim()
        .parse()
        .map_err(|error| ParseWordError(format!("{error}")))
}

impl Form for Duration {
    type Schema = DurationText;

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        if let Value::Whole(_) | Value::Decimal(_) = node.value {
            context.fail(
                &node.spot,
                "a length of time needs a unit",
                Some(
                    "write it as a text with ns, us, ms, s, min or h, as in `\"10 ms\"`".to_owned(),
                ),
            );
            return None;
        }
        let text = String::from_node(node, context)?;
        parse_duration(&text)
            .map_err(|error| context.fail(&node.spot, error.to_string(), None))
            .ok()
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Form for Instant<Utc> {
    type Schema = CivilText;

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let text = match &node.value {
            Value::Text(text) | Value::Moment(text) => text,
            _ => {
                context.expected(node, "a date and time");
                return None;
            }
        };
        let instant = text
            .parse::<jiff::Timestamp>()
            .ok()
            .and_then(|stamp| i64::try_from(stamp.as_nanosecond()).ok());
        if instant.is_none() {
            let message = format!("`{text}` is not a date and time between 1678 and 2261");
            let help = "write it with its offset from UTC, as in `2019-06-03T00:00:00Z`";
            context.fail(&node.spot, message, Some(help.to_owned()));
        }
        instant.map(Self::from_ns)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match jiff::Timestamp::from_nanosecond(i128::from(self.as_ns())) {
            Ok(stamp) => serializer.collect_str(&stamp),
            Err(_) => serializer.serialize_none(),
        }
    }
}

/// Represents [`Duration`] in the schema.
pub(crate) struct DurationText;
/// Represents a civil [`Instant`] in the schema.
pub(crate) struct CivilText;

text_schema!(
    DurationText,
    "Duration",
    r"^\s*-?[0-9]+(\.[0-9]+)?\s*(ns|us|ms|s|min|h)\s*$",
    "A length of time: a number and ns, us, ms, s, min or h, as in `10 ms`."
);
text_schema!(
    CivilText,
    "CivilTime",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$",
    "A date and time in RFC 3339, as in `2019-06-03T00:00:00Z`."
);
