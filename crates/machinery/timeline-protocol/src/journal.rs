//! Changes of a timeline's status as recorded by its daemon: one JSON object a line, appended to
//! the file that `journal` of the configuration names.

use serde::{Deserialize, Serialize};

use crate::StatusName;

/// A change of status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChange {
    /// Local clock of the daemon at the change, in nanoseconds: in a session its host's
    /// CLOCK_MONOTONIC_RAW.
    pub local_ns: i64,
    /// Status from then on.
    pub status: StatusName,
    /// Cause, if the daemon knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
