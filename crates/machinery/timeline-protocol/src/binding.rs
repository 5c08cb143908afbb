//! State of a binding, and the events that report when it ceases or begins to be met.

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::Shortfall;

use crate::{Need, StatusName};

/// State of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Number of the binding.
    pub binding: u64,
    /// Its requirement.
    #[serde(flatten)]
    pub need: Need,
    /// Reason why it is not met now; absent if it is met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<ShortfallText>,
}

/// Change of a requirement that has ceased or begun to be met. Edges only, after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The requirement is not met any more (or not yet).
    Violated {
        /// Number of the binding.
        binding: u64,
        /// Shortfall of the reading.
        #[serde(flatten)]
        shortfall: ShortfallText,
    },
    /// The requirement is met again (or met from the start).
    Restored {
        /// Number of the binding.
        binding: u64,
    },
}

/// Shortfall of a reading against a requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortfallText {
    /// Status of the timeline at that time. If it is not `ok`, it is the reason.
    pub status: StatusName,
    /// Maximum distance of true time before the estimate; absent without an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_ns: Option<i64>,
    /// Maximum distance of true time after the estimate; absent without an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_ns: Option<i64>,
    /// Description of the shortfall as text.
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
