//! Events during a run, and checks after it: attacks, captures and checks.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::assertion::Assertion;
use crate::plan::{Link, Program};
use crate::read::{Context, Form, written_by_serde};
use crate::table::table;
use crate::tree::{Node, Value};

table! {
/// Actions of an adversary: programs that start on one host, at a given time or by hand. Every
/// attack is labelled in the results, so that detectors can be scored.
#[noun = "an attack"]
pub struct Attack {
    /// Name of the attack, unique among the attacks.
    pub id: String,
    /// Virtual time at which the attack begins. If left out, it begins by hand
    /// (`timeloom attack start`) or by an event.
    pub at: Option<Duration>,
    /// Host on which the programs of the attack run.
    pub host: String,
    /// Enables the attack. A disabled attack is checked but not run.
    pub enabled: bool = true,
    /// Techniques of MITRE ATT&CK for ICS, such as `T0814`. They are written to the labels.
    pub technique: Vec<String> = Vec::new(),
    /// Targets of the attack: hosts, devices, switches, plants or simulated nodes. They are written
    /// to the labels.
    pub target: Vec<String> = Vec::new(),
    /// Programs that carry out the attack.
    #[read(|fields, key| Program::read_from(fields, key, at.unwrap_or_default()))]
    pub programs: Vec<Program> = Vec::new(),
}
}

table! {
/// Packet capture on a link.
#[noun = "a capture"]
#[derive(Eq)]
pub struct Capture {
    /// Captured link: its two nodes in either order, or its name.
    pub link: LinkName,
}
}

/// Name of a link in captures and events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LinkName {
    /// Names of the nodes at the ends of the link.
    Ends([String; 2]),
    /// Name that the scenario gives the link, or its name in signals (`net.link.NAME`).
    Named(String),
}

impl Default for LinkName {
    fn default() -> Self {
        Self::Ends(Default::default())
    }
}

/// Formats the link as in messages and in the name of its capture file.
impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ends([a, b]) => write!(f, "{a}-{b}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl LinkName {
    /// Returns true if this is the name of `link`.
    pub fn is(&self, link: &Link) -> bool {
        match self {
            Self::Ends(ends) => link.joins(ends),
            Self::Named(name) => link.name.as_ref() == Some(name),
        }
    }
}

table! {
/// Assertion about recorded signals. The run passes only if it holds.
#[noun = "a check"]
pub struct Check {
    /// Name of the check, unique among the checks.
    pub name: String,
    /// Assertion, such as `min(grid.bus.680.v1) < 2345 from 25 s`.
    pub assert: Assertion,
    /// Condition for the check: `attack.ID` if that attack must be enabled, `no attack.ID` if it
    /// must be disabled. If left out, the check always applies.
    pub when: Option<Condition>,
}
}

/// Condition under which a check applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The attack with this id must be enabled.
    With(String),
    /// The attack with this id must be disabled.
    Without(String),
}

impl Form for LinkName {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        match &node.value {
            Value::List(_) => Form::from_node(node, context).map(Self::Ends),
            Value::Text(_) => String::from_node(node, context).map(Self::Named),
            _ => {
                context.expected(node, "the two ends of a link, or its name");
                None
            }
        }
    }
}
