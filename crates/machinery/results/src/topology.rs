//! Document `topology.json`: the simulated network of a run, for the report and for other tools.

use serde::{Deserialize, Serialize};

/// Simulated network, as it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Nodes.
    pub nodes: Vec<TopologyNode>,
    /// Links.
    pub links: Vec<TopologyLink>,
    /// Flows of simulated background traffic.
    pub flows: Vec<TopologyFlow>,
}

/// Node of the network.
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
    /// Host or device of the experiment, which a portal connects to the network.
    Real,
    /// Simulated host.
    Host,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

/// Link with the same properties in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLink {
    /// Name of the link, which has the signals `net.link.NAME.…`.
    pub name: String,
    /// Nodes that the link joins, as indices in `nodes`.
    pub ends: [usize; 2],
    /// Bit rate, in bit/s.
    pub rate_bps: u64,
    /// Propagation delay, in ns.
    pub delay_ns: i64,
    /// True if the signals of the link are recorded.
    pub recorded: bool,
}

/// Flow of traffic between two simulated hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyFlow {
    /// Name of the flow, which has the signals `net.flow.NAME.…`.
    pub name: String,
    /// Name of the source host.
    pub from: String,
    /// Name of the destination host.
    pub to: String,
    /// Kind of the flow as in the scenario, such as `cubic`.
    pub kind: String,
}
