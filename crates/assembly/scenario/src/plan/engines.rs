//! Several engines for one simulated network: `[network.engines]`.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::Named;
use crate::read::{Fields, Read};
use crate::words;

/// Division of the simulated network into parts, each run by its own engine: a thread or a process.
/// Exactly one of `count` and `parts` is given.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Engines {
    /// Number of engines; the cut is chosen automatically, and `timeloom check` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub count: Option<u16>,
    /// Engines by name, with the nodes of each; `NAME*` matches all nodes whose names begin with
    /// NAME. A node that is not listed belongs to the engine of the nearest listed node.
    #[serde(skip_serializing_if = "Named::is_empty")]
    #[schemars(default)]
    pub parts: Named<Vec<String>>,
    /// Synchronisation of the engines.
    #[schemars(default)]
    pub mode: EngineMode,
    /// A packet from another engine counts as late if it arrives later than this after its due
    /// time.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText", default = "one_millisecond")]
    pub late_after: Duration,
    /// Share of late packets from which on the run is marked as not trustworthy.
    #[schemars(default = "tolerated", range(min = 0.0, max = 1.0))]
    pub late_share: f64,
    /// Reaction to the death of an engine.
    #[schemars(default)]
    pub failure: EngineFailure,
    /// Runs each engine as a process of its own; the engines communicate by datagrams.
    #[schemars(default)]
    pub processes: bool,
    /// Encrypts these datagrams. They are authenticated in any case.
    #[schemars(default)]
    pub encrypt: bool,
}

/// Synchronisation between engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineMode {
    /// Engines do not wait for each other: a late packet is handled at once, and counted. Not
    /// where time skips or is granted.
    #[default]
    Free,
    /// No engine advances beyond the time promised by the others: no packet is late.
    Exact,
}

/// Reaction of a run to the death of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineFailure {
    /// The run fails and names the engine.
    #[default]
    Stop,
    /// The run continues without that part, and is marked as not trustworthy.
    Continue,
    /// A new process replaces the engine and rejoins the others; the run is marked as not
    /// trustworthy.
    Restart,
}

impl Default for Engines {
    fn default() -> Self {
        Self {
            count: None,
            parts: Named::new(),
            mode: EngineMode::default(),
            late_after: one_millisecond(),
            late_share: tolerated(),
            failure: EngineFailure::default(),
            processes: false,
            encrypt: false,
        }
    }
}

impl Engines {
    /// Returns the names of the engines, in order.
    pub fn names(&self) -> Vec<String> {
        match self.count {
            Some(count) => (0..count).map(|number| format!("engine{number}")).collect(),
            None => self.parts.keys().cloned().collect(),
        }
    }

    /// Returns the tolerated number of late packets per million.
    pub fn late_ppm(&self) -> u32 {
        (self.late_share.clamp(0.0, 1.0) * 1e6).round() as u32
    }
}

fn one_millisecond() -> Duration {
    Duration::from_ms(1)
}
fn tolerated() -> f64 {
    0.0005
}

impl Read for Engines {
    const NOUN: &'static str = "the engines of a network";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            count: fields.optional("count"),
            parts: fields.or_default("parts"),
            mode: fields.or_default("mode"),
            late_after: fields.or("late_after", one_millisecond()),
            late_share: fields.or("late_share", tolerated()),
            failure: fields.or_default("failure"),
            processes: fields.or_default("processes"),
            encrypt: fields.or_default("encrypt"),
        }
    }
}
