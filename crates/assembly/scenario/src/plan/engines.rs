//! Table `[network.engines]`: several engines for one simulated network.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::Named;
use crate::read::{Fields, Read};
use crate::words;

/// Division of the simulated network into parts, each of which is simulated by an engine: a thread
/// or a process. Exactly one of `count` and `parts` is given.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Engines {
    /// Number of engines. The network is divided automatically; `timeloom check` shows the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub count: Option<u16>,
    /// Nodes of each engine, by its name. `NAME*` matches all nodes whose names begin with NAME. A
    /// node that is not listed belongs to the engine of the nearest listed node.
    #[serde(skip_serializing_if = "Named::is_empty")]
    #[schemars(default)]
    pub parts: Named<Vec<String>>,
    /// Synchronisation of the engines.
    #[schemars(default)]
    pub mode: EngineMode,
    /// Lateness from which on a packet from another engine counts as late.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText", default = "one_millisecond")]
    pub late_after: Duration,
    /// Share of late packets from which on the results count as not trustworthy.
    #[schemars(default = "tolerated", range(min = 0.0, max = 1.0))]
    pub late_share: f64,
    /// Reaction of the run to the death of an engine.
    #[schemars(default)]
    pub failure: EngineFailure,
    /// Runs each engine as a process. The engines then exchange packets by datagrams.
    #[schemars(default)]
    pub processes: bool,
    /// Encrypts the datagrams between engines, which are always authenticated.
    #[schemars(default)]
    pub encrypt: bool,
}

/// Synchronisation between engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineMode {
    /// Engines do not wait for each other. A late packet is handled at once, and counted.
    #[default]
    Free,
    /// No engine advances beyond the time that the others have promised, so no packet is late.
    Exact,
}

/// Reaction of a run to the death of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineFailure {
    /// The run fails and names the engine.
    #[default]
    Stop,
    /// The run continues without that part of the network, and its results count as not
    /// trustworthy.
    Continue,
    /// A new process replaces the engine and joins the others; the results count as not
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

    /// Returns the number of late packets per million that the run tolerates.
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
