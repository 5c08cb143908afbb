//! Queries of a world: its structure, and its counters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use timeloom_time::convert::{high_u64, number_of};
use timeloom_time::{Duration, Instant, Virtual};

use crate::error::BuildError;
use crate::ids::{FlowId, Node, NodeRole, TrafficSourceId};
use crate::packet::PortId;
use crate::tables::address::Family;
use crate::tables::crossings::Cable;
use crate::tables::flow::FlowDescription;
use crate::tables::source::{Source, TrafficStats};
use crate::tables::stats::{Counters, LinkStats};
use crate::tcp::TcpStats;
use crate::world::World;

/// Nodes, ports and cables, which do not change after the build.
impl World {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.roles.len()
    }

    /// Returns the name of a node.
    pub fn name(&self, node: Node) -> &str {
        &self.names[node.0 as usize]
    }

    /// Returns true if a node is a host.
    pub fn is_host(&self, node: Node) -> bool {
        matches!(self.roles[node.0 as usize], NodeRole::Host)
    }

    /// Returns true if a node is a switch.
    pub fn is_switch(&self, node: Node) -> bool {
        matches!(self.roles[node.0 as usize], NodeRole::Switch(_))
    }

    /// Returns the IPv4 address of an interface; 0.0.0.0 if it has none.
    pub fn address(&self, port: PortId) -> Ipv4Addr {
        let own = self.ports.v4(port);
        own.map_or(Ipv4Addr::UNSPECIFIED, |(address, _)| address)
    }

    /// Returns the IPv6 address of an interface and the length of its network's prefix; `None` if
    /// it has none.
    pub fn address_v6(&self, port: PortId) -> Option<(Ipv6Addr, u8)> {
        self.ports.v6(port)
    }

    /// Iterates over all addresses of all nodes, in the order of the ports.
    pub fn addresses(&self) -> impl Iterator<Item = (Node, IpAddr)> + '_ {
        let ports = (0..number_of(self.ports.len())).map(PortId);
        ports.flat_map(|port| {
            let own = Family::BOTH.map(|family| self.ports.address(port, family));
            let node = self.node_of(port);
            own.into_iter().flatten().map(move |own| (node, own))
        })
    }

    /// Returns the node that has a port.
    pub fn node_of(&self, port: PortId) -> Node {
        Node(self.ports[port].node)
    }

    /// Returns the first port of a node; `None` if the node has no port.
    pub fn port_of(&self, node: Node) -> Option<PortId> {
        let port = self.ports.first_of(node.0);
        (port != PortId::NONE).then_some(port)
    }

    /// Returns the prefix length of an interface's IPv4 network; 0 if the interface has no IPv4
    /// address.
    pub fn prefix(&self, port: PortId) -> u8 {
        self.ports.v4(port).map_or(0, |(_, prefix)| prefix)
    }

    /// Returns the MAC address of an interface.
    pub fn mac(&self, port: PortId) -> [u8; 6] {
        self.outside.macs.mac(port)
    }

    /// Returns the IPv4 address of a host's router; `None` if it has none.
    pub fn gateway(&self, node: Node) -> Option<Ipv4Addr> {
        let port = self.ports.gateway_of(node.0);
        (port != PortId::NONE).then(|| self.address(port))
    }

    /// Returns the IPv6 address of a host's router; `None` if it has none.
    pub fn gateway_v6(&self, node: Node) -> Option<Ipv6Addr> {
        let port = self.ports.gateway_of(node.0);
        self.ports.v6(port).map(|(address, _)| address)
    }

    /// Returns the MTU of the link out of `port`: the longest IP packet of a real program, in
    /// bytes.
    pub fn mtu(&self, port: PortId) -> u16 {
        self.links.config(port).mtu
    }

    /// Returns the configured rate of the link out of `port` in bit/s on the wire, including
    /// Ethernet's overhead.
    pub fn rate_bps(&self, port: PortId) -> u64 {
        self.links.config(port).rate_bps
    }

    /// Returns the configured propagation delay of the link out of `port`.
    pub fn delay(&self, port: PortId) -> Duration {
        self.links.config(port).delay
    }

    /// Returns the shortest propagation delay that the link out of `port` has at any time, as far as
    /// changes are planned.
    pub fn least_delay(&self, port: PortId) -> Duration {
        let planned = self.changes.least_delay(port);
        planned.map_or(self.delay(port), |planned| planned.min(self.delay(port)))
    }

    /// Returns the present rate of the link out of `port` in bit/s; its configured rate if another
    /// engine has the link.
    pub fn present_rate_bps(&self, port: PortId) -> u64 {
        let link = self.links.get(port);
        link.map_or_else(|| self.rate_bps(port), |link| link.rate_bps())
    }

    /// Returns the present propagation delay of the link out of `port`; its configured delay if
    /// another engine has the link.
    pub fn present_delay(&self, port: PortId) -> Duration {
        let link = self.links.get(port);
        link.map_or_else(|| self.delay(port), |link| link.delay())
    }

    /// Returns the time from `now` until the link out of `port` has sent all its packets.
    pub fn backlog(&self, port: PortId, now: Instant<Virtual>) -> Duration {
        let free_ns = self
            .links
            .get(port)
            .map_or(0, |link| high_u64(link.free).cast_signed());
        (Instant::from_ns(free_ns) - now).max(Duration::ZERO)
    }

    /// Returns the payload bytes of each segment of a flow.
    pub fn segment_bytes(&self, flow: FlowId) -> u16 {
        self.flow_line(flow.0).map_or(0, |line| line.bytes)
    }

    /// Iterates over all cables, both directions of each, in the order of their ports.
    pub fn cables(&self) -> impl Iterator<Item = Cable> + '_ {
        self.ports.iter().enumerate().map(|(index, port)| Cable {
            port: PortId(number_of(index)),
            from: Node(port.node),
            to: Node(port.peer_node),
            delay: self.least_delay(PortId(number_of(index))),
        })
    }

    /// Checks that there is a route between two hosts, in both directions.
    ///
    /// # Errors
    /// Fails if one of them is not a host, or if there is no route.
    pub fn check_route(&self, from: Node, to: Node) -> Result<(), BuildError> {
        self.ends(from, to).map(drop)
    }
}

/// Counters and state so far.
impl World {
    /// Returns the counters of the world.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of packets that exist now, that is, wait or are in flight.
    pub fn packets_alive(&self) -> usize {
        self.packets.live()
    }

    /// Returns the counters of the link out of `port`.
    pub fn link(&self, port: PortId) -> LinkStats {
        self.links
            .get(port)
            .map(|link| link.stats)
            .unwrap_or_default()
    }

    /// Returns the number of packets that wait at `now` for the link out of `port`.
    pub fn waiting(&mut self, port: PortId, now: Instant<Virtual>) -> u32 {
        let link = self.links.get_mut(port);
        link.map_or(0, |link| link.waiting(now, &self.packets))
    }

    /// Returns the results of a flow so far; all zero if this engine has neither end of the flow.
    pub fn tcp(&self, flow: FlowId) -> TcpStats {
        let Some(flow) = self.flows.get(flow.0) else {
            return TcpStats::default();
        };
        TcpStats {
            delivered_bytes: flow.delivered_bytes(),
            acknowledged_bytes: flow.acknowledged_bytes(),
            retransmitted: flow.sender.retransmitted,
            slowed_by_marks: flow.sender.slowed_by_marks,
            timeouts: flow.sender.timeouts,
            window: flow.sender.window(),
            smoothed_rtt: flow.sender.smoothed_rtt(),
            finished_at: flow.sender.finished_at,
        }
    }

    /// Returns the results of a source so far; all zero if this engine has neither end.
    pub fn traffic(&self, source: TrafficSourceId) -> TrafficStats {
        let source = self.sources.get(source.0);
        source.map(Source::stats).unwrap_or_default()
    }

    /// Returns the source and the destination host of a flow.
    pub fn flow_ends(&self, flow: FlowId) -> [Node; 2] {
        let line = self.flow_line(flow.0).expect("a flow of this world");
        [line.from, line.to].map(|port| self.node_of(port))
    }

    /// Returns the sending and the receiving host of a source.
    pub fn source_ends(&self, source: TrafficSourceId) -> [Node; 2] {
        let line = self.source_line(source.0).expect("a source of this world");
        [line.from, line.to].map(|port| self.node_of(port))
    }

    /// Iterates over the end hosts of all flows, and then of all sources.
    pub fn traffic_ends(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        let (flows, sources) = self.traffic_counts();
        let flows = (0..number_of(flows)).filter_map(|flow| self.flow_line(flow));
        let sources = (0..number_of(sources)).filter_map(|source| self.source_line(source));
        let lines = flows.chain(sources);
        lines.map(|line| (self.node_of(line.from), self.node_of(line.to)))
    }

    /// Returns the static description of a TCP flow, also if another engine has it.
    pub(crate) fn flow_line(&self, flow: u32) -> Option<FlowDescription> {
        let elsewhere = || self.lines.as_ref()?.flows.get(flow as usize).copied();
        self.flows
            .get(flow)
            .map(FlowDescription::of_flow)
            .or_else(elsewhere)
    }

    /// Returns the static description of a source, also if another engine has it.
    pub(crate) fn source_line(&self, source: u32) -> Option<FlowDescription> {
        let elsewhere = || self.lines.as_ref()?.sources.get(source as usize).copied();
        let here = self.sources.get(source);
        here.map(FlowDescription::of_source).or_else(elsewhere)
    }

    /// Returns the number of flows and the number of sources.
    pub fn traffic_counts(&self) -> (usize, usize) {
        (self.flows.len(), self.sources.len())
    }
}
