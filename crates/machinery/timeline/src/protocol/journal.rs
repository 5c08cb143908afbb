//! Changes of a timeline's status as recorded by its daemon: one JSON object per line, appended to
//! the file that the configuration's key `journal` names.

use serde::{Deserialize, Serialize};

use timeloom_clock::quality::Status;

/// A change of status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChange {
    /// Instant of the change by the daemon's local clock, in nanoseconds. In a session that clock
    /// is the CLOCK_MONOTONIC_RAW of the daemon's host.
    pub local_ns: i64,
    /// Status from that instant on.
    pub status: Status,
    /// Cause of the change, if the daemon knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
