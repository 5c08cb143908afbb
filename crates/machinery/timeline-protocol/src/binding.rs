//! A binding as it is, and the events that tell when it ceases or begins to be met.

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::Shortfall;

use crate::{Need, StatusName};

/// A binding as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Which.
    pub binding: u64,
    /// What it requires.
    #[serde(flatten)]
    pub need: Need,
    /// Why it is not met now; absent when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<ShortfallText>,
}

/// A requirement has ceased or begun to be met. Edges only, after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It is not met any more (or not yet).
    Violated {
        /// Whose.
        binding: u64,
        /// In what way.
        #[serde(flatten)]
        shortfall: ShortfallText,
    },
    /// It is met again (or at first).
    Restored {
        /// Whose.
        binding: u64,
    },
}

/// How a reading falls short of a requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortfallText {
    /// The timeline's status then. When it is not `ok`, it is the reason.
    pub status: StatusName,
    /// How far true time may lie before the estimate; absent without interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_ns: Option<i64>,
    /// How far true time may lie after the estimate; absent without interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_ns: Option<i64>,
    /// How it falls short, in words for people.
    pub why: String,
}

impl From<Shortfall> for ShortfallText {
    fn from(shortfall: Shortfall) -> Self {
        let why = shortfall.to_string();
        let (status, sides) = match shortfall {
            Shortfall::Void(status) => (status, None),
            Shortfall::TooWide {
                status,
                below,
                above,
            } => (status, Some((below.as_ns(), above.as_ns()))),
        };
        Self {
            status: status.into(),
            below_ns: sides.map(|(below, _)| below),
            above_ns: sides.map(|(_, above)| above),
            why,
        }
    }
}
