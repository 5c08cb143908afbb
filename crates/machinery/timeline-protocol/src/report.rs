//! Reports on a timeline and its sources.

use serde::{Deserialize, Serialize};

use crate::{ScaleName, StampText, TimelineName};

/// Report on a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the timeline.
    pub name: TimelineName,
    /// Scale of its nanoseconds.
    pub scale: ScaleName,
    /// A reading.
    #[serde(flatten)]
    pub stamp: StampText,
    /// Number of bindings.
    pub bindings: usize,
    /// Present interval between two requests to a source.
    pub poll_interval_ns: i64,
    /// Rate of the timeline against the local counter's nominal rate, less one.
    pub frequency_ppb: f64,
    /// Growth of the interval, to the worse side.
    pub growth_ppb: f64,
    /// Segments published since the daemon began.
    pub published: u64,
    /// Disturbances since the daemon began.
    pub disturbances: u64,
    /// The last disturbance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_disturbance: Option<String>,
    /// Contradiction between the kernel's TAI offset, the configured one and the leap seconds known
    /// for the date, with the values. If one of them is used nevertheless, the others are certainly
    /// wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tai_offset_contradiction: Option<String>,
    /// Distance of the estimate from the middle of the bounds, with a probability of 0.999999,
    /// judged by the last offsets alone. It includes no asymmetry.
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
    /// Source, as in the configuration.
    pub source: String,
    /// Requests sent.
    pub asked: u64,
    /// Answers accepted.
    pub answered: u64,
    /// Answers without information, and requests without answer.
    pub refused: u64,
    /// Reason why the last one had no information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
    /// Age of the last accepted answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ago_ns: Option<i64>,
    /// Width of the last answer alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width_ns: Option<i64>,
}
