//! Readings of a timeline as text.

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::{Stamp, Status};
use timeloom_time::Instant;

/// Reading of a timeline in the form in which it is displayed and sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampText {
    /// The timeline's id, 32 hexadecimal digits.
    pub timeline: String,
    /// Trustworthiness of the reading.
    pub status: Status,
    /// Interval that contains true time; absent if the timeline has no interval.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalText>,
}

/// Interval that contains true time, in nanoseconds of the timeline's scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntervalText {
    /// Earliest possible true time.
    pub earliest_ns: i64,
    /// Best single estimate of true time.
    pub estimate_ns: i64,
    /// Latest possible true time.
    pub latest_ns: i64,
}

impl From<Stamp> for StampText {
    fn from(stamp: Stamp) -> Self {
        let ns = |at: Instant<timeloom_clock::TimelineTime>| at.as_ns();
        Self {
            timeline: format!("{:032x}", stamp.timeline().0),
            status: stamp.status(),
            interval: stamp.interval().map(|interval| IntervalText {
                earliest_ns: ns(interval.earliest()),
                estimate_ns: ns(interval.estimate()),
                latest_ns: ns(interval.latest()),
            }),
        }
    }
}
