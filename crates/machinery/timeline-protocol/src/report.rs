//! How a timeline and its sources are doing.

use serde::{Deserialize, Serialize};

use crate::{ScaleName, StampText, TimelineName};

/// How a timeline is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The timeline's name.
    pub name: TimelineName,
    /// What its nanoseconds count.
    pub scale: ScaleName,
    /// A reading.
    #[serde(flatten)]
    pub stamp: StampText,
    /// How many bindings there are.
    pub bindings: usize,
    /// Time between two questions to a source at present.
    pub poll_interval_ns: i64,
    /// Rate of the timeline against the local counter's nominal rate, less one.
    pub frequency_ppb: f64,
    /// How fast the interval grows to the worse side.
    pub growth_ppb: f64,
    /// Segments published since the daemon began.
    pub published: u64,
    /// Disturbances since the daemon began.
    pub disturbances: u64,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_disturbance: Option<String>,
    /// Contradiction between the kernel's TAI offset, the configured one and the leap seconds known
    /// for the date, with the values. If one of them is used nevertheless, the others are certainly
    /// wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tai_offset_contradiction: Option<String>,
    /// With a probability of 0.999999 the estimate is within this of the middle
    /// of the bounds, judged by the last offsets alone. No asymmetry is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistical_ns: Option<i64>,
    /// The sources in the configuration's order.
    pub sources: Vec<SourceReport>,
    /// The daemon.
    pub pid: u32,
}

/// How a source is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReport {
    /// What it is, as in the configuration.
    pub source: String,
    /// Questions sent.
    pub asked: u64,
    /// Answers taken in.
    pub answered: u64,
    /// Answers that told nothing, and questions without answer.
    pub refused: u64,
    /// Why the last one told nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
    /// How long ago the last answer was taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ago_ns: Option<i64>,
    /// Width of what the last answer alone said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width_ns: Option<i64>,
}
