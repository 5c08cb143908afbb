//! `topology.json`: the simulated network of a run, for the report and for other tools.

use serde::{Deserialize, Serialize};

/// A simulated network as it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Nodes.
    pub nodes: Vec<TopologyNode>,
    /// Links.
    pub links: Vec<TopologyLink>,
    /// Simulated traffic.
    pub flows: Vec<TopologyFlow>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyNode {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: NodeKind,
}

/// Kind of a node.
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

/// A link, equal in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLink {
    /// Name; its signals are `net.link.NAME.…`.
    pub name: String,
    /// Nodes that it joins, by their index in `nodes`.
    pub ends: [usize; 2],
    /// Bit rate, in bit/s.
    pub rate_bps: u64,
    /// Propagation delay, in ns.
    pub delay_ns: i64,
    /// True if its signals are recorded.
    pub recorded: bool,
}

/// Traffic between hosts of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyFlow {
    /// Name; its signals are `net.flow.NAME.…`.
    pub name: String,
    /// Source host.
    pub from: String,
    /// Destination host.
    pub to: String,
    /// Kind as in the scenario: `cubic`.
    pub kind: String,
}
