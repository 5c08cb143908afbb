//! Several engines for one simulated network: `[network.engines]`.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::Named;
use crate::read::{Fields, Read};
use crate::words;

/// The simulated network in parts, each in an engine of its own: a thread or a process. Either
/// `count` or `parts` is there.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Engines {
    /// How many engines; where the network is cut is chosen, and `timeloom check` says where.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub count: Option<u16>,
    /// The engines by name, and the nodes that each has; `NAME*` is all nodes whose names begin
    /// so. A node that nobody names goes with the nearest one that somebody does.
    #[serde(skip_serializing_if = "Named::is_empty")]
    #[schemars(default)]
    pub parts: Named<Vec<String>>,
    /// Whether the engines wait for one another.
    #[schemars(default)]
    pub mode: EngineMode,
    /// A packet that comes from another engine later than this after its instant counts.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText", default = "one_millisecond")]
    pub late_after: Duration,
    /// The share of such packets from which on the run is not to be trusted.
    #[schemars(default = "tolerated", range(min = 0.0, max = 1.0))]
    pub late_share: f64,
    /// What becomes of the run when an engine dies.
    #[schemars(default)]
    pub failure: EngineFailure,
    /// Whether each engine is a process of its own, which the others reach by datagrams.
    #[schemars(default)]
    pub processes: bool,
    /// Whether these datagrams are encrypted. They are sealed in any case.
    #[schemars(default)]
    pub encrypt: bool,
}

/// Whether engines wait for one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineMode {
    /// They do not: a packet that comes too late is handled at once, and counted.
    #[default]
    Free,
    /// None goes further than the others have promised: no packet comes too late.
    Exact,
}

/// What becomes of a run of which an engine dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineFailure {
    /// It fails, and says which engine it was.
    #[default]
    Stop,
    /// It goes on without that part, and is not to be trusted.
    Continue,
    /// Another process takes its place and joins the others; the run is not to be trusted.
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
    /// What the engines are called, in their order.
    pub fn names(&self) -> Vec<String> {
        match self.count {
            Some(count) => (0..count).map(|number| format!("engine{number}")).collect(),
            None => self.parts.keys().cloned().collect(),
        }
    }

    /// Late packets per million that are tolerated.
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
