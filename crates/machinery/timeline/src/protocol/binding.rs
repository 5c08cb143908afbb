//! State of a binding, and the events that report when its requirement ceases or begins to be met.

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::Shortfall;

use timeloom_clock::quality::Status;

use crate::protocol::PlainRequirement;

/// State of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingState {
    /// Number of the binding.
    pub binding: u64,
    /// Requirement of the binding.
    #[serde(flatten)]
    pub need: PlainRequirement,
    /// Reason why the requirement is not met now; absent if it is met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<ShortfallText>,
}

/// Event that reports that a requirement ceases or begins to be met. After the first event, an
/// event is sent only when this changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum BindingEvent {
    /// The requirement is not met any more, or not met at the time of the subscription.
    Violated {
        /// Number of the binding.
        binding: u64,
        /// Shortfall of the reading that does not meet the requirement.
        #[serde(flatten)]
        shortfall: ShortfallText,
    },
    /// The requirement is met again, or met at the time of the subscription.
    Restored {
        /// Number of the binding.
        binding: u64,
    },
}

/// Difference between a reading and a requirement that it does not meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortfallText {
    /// Status of the timeline at that time. A status other than `ok` is the cause.
    pub status: Status,
    /// Maximum distance of true time before the estimate, in nanoseconds; absent without an
    /// interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_ns: Option<i64>,
    /// Maximum distance of true time after the estimate, in nanoseconds; absent without an
    /// interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_ns: Option<i64>,
    /// Text that describes the shortfall.
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
            status,
            below_ns: sides.map(|(below, _)| below),
            above_ns: sides.map(|(_, above)| above),
            why,
        }
    }
}
