//! `topology.json`: the simulated network of a run, for the report and for others.

use serde::{Deserialize, Serialize};

/// A simulated network as it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Its nodes.
    pub nodes: Vec<TopologyNode>,
    /// Its links.
    pub links: Vec<TopologyLink>,
    /// Its simulated traffic.
    pub flows: Vec<TopologyFlow>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyNode {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A host or device of the experiment, which joins at a portal.
    Real,
    /// A host of the model.
    Host,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

/// A link, alike in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLink {
    /// What it is called: its signals are `net.link.NAME.…`.
    pub name: String,
    /// The nodes that it joins, by their numbers in `nodes`.
    pub ends: [usize; 2],
    /// How fast it sends, in bit/s.
    pub rate_bps: u64,
    /// How long a bit is on its way, in ns.
    pub delay_ns: i64,
    /// Whether its signals are recorded.
    pub recorded: bool,
}

/// Traffic between hosts of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyFlow {
    /// What it is called: its signals are `net.flow.NAME.…`.
    pub name: String,
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// What it is, as in the scenario: `cubic`.
    pub kind: String,
}
