//! Builder of networks: checks nodes and cables, and makes a world of them.

use std::collections::HashMap;
use std::net::IpAddr;

use timeloom_time::Duration;
use timeloom_time::convert::number_of;

use crate::config::{LinkConfig, QueueConfig};
use crate::error::BuildError;
use crate::ids::Node;
use crate::packet::PortId;
use crate::tables::address::{Family, bits};
use crate::tables::switch::PortMode;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Host,
    Router,
    Switch,
}

#[derive(Debug)]
pub(crate) struct NodePlan {
    pub(crate) kind: NodeKind,
    pub(crate) name: String,
    pub(crate) ports: Vec<PortId>,
}

/// A configured static route.
#[derive(Debug)]
pub(crate) struct StaticPlan {
    pub(crate) at: Node,
    pub(crate) prefix: (IpAddr, u8),
    pub(crate) through: Node,
}

/// Configuration of the network so far; lists are indexed by node or by port.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: Vec<NodePlan>,
    /// Distinct link configurations; `kind_of` gives the index into this list by port.
    pub(crate) kinds: Vec<LinkConfig>,
    pub(crate) kind_of: Vec<u32>,
    pub(crate) owners: Vec<Node>,
    modes: Vec<PortMode>,
    /// Configured addresses of interfaces by family: address bits and length of the prefix.
    pub(crate) addresses: [HashMap<PortId, (u128, u8)>; 2],
    pub(crate) statics: Vec<StaticPlan>,
}

impl Plan {
    pub(crate) fn ports(&self) -> usize {
        self.owners.len()
    }
    pub(crate) fn owner(&self, port: PortId) -> Node {
        self.owners[port.index()]
    }
    pub(crate) fn node(&self, port: PortId) -> &NodePlan {
        &self.nodes[self.owner(port).0 as usize]
    }
    pub(crate) fn name(&self, port: PortId) -> String {
        self.node(port).name.clone()
    }
    pub(crate) fn link(&self, port: PortId) -> &LinkConfig {
        &self.kinds[self.kind_of[port.index()] as usize]
    }
    /// Returns the index of a link configuration, which is added if it is new. Many links are
    /// alike, and most of these are added one after another, so a comparison with the last few is
    /// enough.
    fn kind(&mut self, link: LinkConfig) -> u32 {
        let first = self.kinds.len().saturating_sub(LOOKED_AT);
        let alike = self.kinds[first..].iter().position(|kind| *kind == link);
        let number = alike.map_or(self.kinds.len(), |place| first + place);
        if alike.is_none() {
            self.kinds.push(link);
        }
        number_of(number)
    }
    pub(crate) fn mode(&self, port: PortId) -> &PortMode {
        &self.modes[port.index()]
    }
}

/// Builder of a network from nodes and cables. [`NetworkBuilder::build`] checks the network.
#[derive(Debug, Default)]
pub struct NetworkBuilder {
    plan: Plan,
}

impl NetworkBuilder {
    /// Returns an empty network; all its random numbers are derived from `seed`.
    pub fn new(seed: u64) -> Self {
        let plan = Plan {
            seed,
            ..Plan::default()
        };
        Self { plan }
    }

    fn node(&mut self, kind: NodeKind, name: impl Into<String>) -> Node {
        self.plan.nodes.push(NodePlan {
            kind,
            name: name.into(),
            ports: Vec::new(),
        });
        Node(number_of(self.plan.nodes.len()) - 1)
    }

    /// Adds a host, which has one interface and is a source and destination of traffic.
    pub fn host(&mut self, name: impl Into<String>) -> Node {
        self.node(NodeKind::Host, name)
    }

    /// Adds an IP router.
    pub fn router(&mut self, name: impl Into<String>) -> Node {
        self.node(NodeKind::Router, name)
    }

    /// Adds an Ethernet switch.
    pub fn switch(&mut self, name: impl Into<String>) -> Node {
        self.node(NodeKind::Switch, name)
    }

    /// Connects two nodes by a link with the same configuration in both directions.
    pub fn connect(&mut self, a: Node, b: Node, link: LinkConfig) -> (PortId, PortId) {
        self.connect_unlike(a, b, link.clone(), link)
    }

    /// Connects two nodes by a cable: link `forth` leads from `a` to `b`, link `back` from `b` to
    /// `a`. Returns the port at `a` and the port at `b`.
    pub fn connect_unlike(
        &mut self,
        a: Node,
        b: Node,
        forth: LinkConfig,
        back: LinkConfig,
    ) -> (PortId, PortId) {
        let plan = &mut self.plan;
        let first = PortId(number_of(plan.owners.len()));
        // A cable between switches carries all VLANs; a cable from a switch to a station carries
        // the default VLAN (IEEE 802.1Q, 9.6).
        let both = [a, b].map(|node| plan.nodes[node.0 as usize].kind) == [NodeKind::Switch; 2];
        let mode = if both {
            PortMode::Trunk
        } else {
            PortMode::Access(1)
        };
        plan.modes.extend([mode.clone(), mode]);
        plan.owners.extend([a, b]);
        let kinds = [forth, back].map(|link| plan.kind(link));
        plan.kind_of.extend(kinds);
        plan.nodes[a.0 as usize].ports.push(first);
        plan.nodes[b.0 as usize].ports.push(first.peer());
        (first, first.peer())
    }

    /// Sets the VLAN mode of a switch's port.
    pub fn set_mode(&mut self, port: PortId, mode: PortMode) {
        self.plan.modes[port.index()] = mode;
    }

    /// Sets the address of an interface, with the length of its network's prefix. An interface can
    /// have one address of each family.
    ///
    /// Interfaces without a configured address get one from 10.0.0.0/8 and, if any IPv6 address is
    /// configured in the network, one from fd54:4c00::/32. A host with a configured address of one
    /// family has none of the other.
    pub fn set_address(&mut self, port: PortId, address: impl Into<IpAddr>, prefix: u8) {
        let address = address.into();
        let family = Family::of(address);
        let given = (bits(address), prefix.min(family.width()));
        self.plan.addresses[family as usize].insert(port, given);
    }

    /// Adds a static route: router `at` sends packets for `prefix` to its neighbour `through`,
    /// whatever the shortest path is. Among static routes, the longest matching prefix counts.
    pub fn route(&mut self, at: Node, prefix: (impl Into<IpAddr>, u8), through: Node) {
        self.plan.statics.push(StaticPlan {
            at,
            prefix: (prefix.0.into(), prefix.1),
            through,
        });
    }

    /// Iterates over all nodes so far, with their names.
    pub fn nodes(&self) -> impl Iterator<Item = (String, Node)> + '_ {
        let nodes = self.plan.nodes.iter().enumerate();
        nodes.map(|(index, node)| (node.name.clone(), Node(number_of(index))))
    }

    /// Returns the port of `node` for its `index`-th cable, counted from 0; `None` if there is
    /// none.
    pub fn port(&self, node: Node, index: usize) -> Option<PortId> {
        self.plan.nodes[node.0 as usize].ports.get(index).copied()
    }

    /// Checks the network and returns its world, ready for traffic.
    ///
    /// # Errors
    ///
    /// Fails if the network is invalid; the error names the nodes.
    pub fn build(self) -> Result<World, BuildError> {
        check(&self.plan)?;
        World::from_plan(self.plan)
    }
}

/// Number of recent link configurations with which a new one is compared.
const LOOKED_AT: usize = 8;

/// Smallest MTU of an IPv4 link (RFC 791, section 3.2).
const LEAST_MTU: u16 = 68;
/// Smallest MTU of an IPv6 link (RFC 8200, section 5).
const LEAST_MTU_OF_V6: u16 = 1_280;

fn check(plan: &Plan) -> Result<(), BuildError> {
    if plan.ports() >= 1 << 28 {
        return Err(BuildError::TooLarge);
    }
    let mut names = std::collections::HashSet::new();
    for node in &plan.nodes {
        if !names.insert(node.name.as_str()) {
            return Err(BuildError::DuplicateName(node.name.clone()));
        }
        if node.kind == NodeKind::Host && node.ports.len() != 1 {
            let name = node.name.clone();
            return Err(if node.ports.is_empty() {
                BuildError::NotConnected(name)
            } else {
                BuildError::PortUsedTwice(name)
            });
        }
    }
    for port in (0..number_of(plan.ports())).map(PortId) {
        let link = plan.link(port);
        let (a, b) = (plan.name(port), plan.name(port.peer()));
        if plan.owner(port) == plan.owner(port.peer()) {
            return Err(BuildError::SelfLoop(a));
        }
        if link.rate_bps == 0 {
            return Err(BuildError::ZeroRate(a, b));
        }
        let wire = &link.impairment;
        let chances = [wire.loss, wire.duplication, wire.reordering];
        let times = [link.delay, wire.jitter];
        if chances.iter().any(|chance| !(0.0..=1.0).contains(chance))
            || times
                .iter()
                .any(|time| time.is_negative() || *time == Duration::MAX)
        {
            return Err(BuildError::BadImpairment(a, b));
        }
        if link.mtu < LEAST_MTU {
            return Err(BuildError::BadMtu(a, b));
        }
        if link.mtu < LEAST_MTU_OF_V6 && !plan.addresses[Family::V6 as usize].is_empty() {
            return Err(BuildError::BadMtuOfV6(a, b));
        }
        if matches!(link.queue, QueueConfig::Red(_)) && wire.disturbs() {
            return Err(BuildError::RedWithJitter(a, b));
        }
    }
    Ok(())
}
