//! Reports on a timeline and its sources.

use serde::{Deserialize, Serialize};

use crate::protocol::{StampText, TimelineName, TimelineScale};

/// Report on a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineReport {
    /// Name of the timeline.
    pub name: TimelineName,
    /// Scale of the timeline's nanoseconds.
    pub scale: TimelineScale,
    /// Reading of the timeline at the time of the report.
    #[serde(flatten)]
    pub stamp: StampText,
    /// Number of bindings in force.
    pub bindings: usize,
    /// Present interval between two requests to a source, in nanoseconds.
    pub poll_interval_ns: i64,
    /// Rate of the timeline relative to the nominal rate of the local counter, minus one, in parts
    /// per 10^9.
    pub frequency_ppb: f64,
    /// Growth of the interval on the side that grows faster, in parts per 10^9 of the elapsed time.
    pub growth_ppb: f64,
    /// Number of segments published since the daemon began.
    pub published: u64,
    /// Number of disturbances since the daemon began.
    pub disturbances: u64,
    /// Description of the last disturbance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_disturbance: Option<String>,
    /// Contradiction between the kernel's TAI offset, the configured one and the table of leap
    /// seconds for the present date, with all values. If one of the offsets is used nevertheless,
    /// the others are certainly wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tai_offset_contradiction: Option<String>,
    /// Distance from the estimate to the middle of the bounds that is not exceeded with a
    /// probability of 0.999999, in nanoseconds. It is computed from the last offsets alone, so it
    /// does not include an asymmetric path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistical_ns: Option<i64>,
    /// The sources in the configuration's order.
    pub sources: Vec<SourceReport>,
    /// Process identifier of the daemon.
    pub pid: u32,
}

/// Report on a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Label of the source, made from its configuration.
    pub source: String,
    /// Number of requests sent to the source.
    pub asked: u64,
    /// Number of answers that were accepted.
    pub answered: u64,
    /// Number of requests without an answer or with an answer that had no information.
    pub refused: u64,
    /// Reason for the last refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
    /// Age of the last accepted answer, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ago_ns: Option<i64>,
    /// Width of the interval that the last answer alone gives, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width_ns: Option<i64>,
}
