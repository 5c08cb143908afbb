//! The running network: its state, and the transmission of packets on links.

use std::sync::Arc;

use timeloom_time::convert::number_of;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId, Random};

use crate::error::BuildError;
use crate::fluid::Fluid;
use crate::ids::{FlowId, Node, NodeRole, Token, TrafficSourceId};
use crate::link::Offered;
use crate::packet::{NIL, PacketKind, PortId};
use crate::route::Routes;
use crate::tables::arp::ArpCache;
use crate::tables::changes::Changes;
use crate::tables::crossings::Crossings;
use crate::tables::flow::{Flow, Lines};
use crate::tables::icmp_limit::IcmpLimits;
use crate::tables::kernel_timers::KernelTimers;
use crate::tables::links::Links;
use crate::tables::outside::Outside;
use crate::tables::ports::Ports;
use crate::tables::residents::Residents;
use crate::tables::router::Router;
use crate::tables::slab::{PacketId, Slab};
use crate::tables::source::{Source, TrafficConfig};
use crate::tables::sparse::Sparse;
use crate::tables::stats::Counters;
use crate::tables::switch::Switch;
use crate::tcp::TcpConfig;

/// The running network: the state of all nodes and links.
///
/// The methods are of four kinds, and appear in this order in each file:
///
/// - **Configuration**, mostly before [`World::start`]: `add_*` for traffic, [`World::attach`] for
///   residents of nodes, [`World::open`], [`World::open_frames`] and [`World::watch`] for real
///   programs, [`World::part`] for one engine's part of the network, `set_*` for the rest.
/// - **Inputs**: [`World::start`], then the events that the engine passes to `handle`, and external
///   inputs: [`World::send_raw`] and [`World::send_frame`] for packets of real programs,
///   [`World::take_over`] for packets of other engines. Each input schedules its events in the
///   given agenda.
/// - **Outputs**, which wait until the caller takes them: [`World::take_raw`],
///   [`World::take_frame`] and [`World::take_captured`] for real programs, [`World::crossings`] for
///   other engines.
/// - **Queries**, which change nothing: the structure of the network, and counters.
///
/// Constant data is shared by all parts of one network ([`World::part`]); variable state is only in
/// one part. The fields are tables that do not depend on each other. The module `node` handles
/// packets at nodes, `run` dispatches events, and this file transmits packets on links for both.
#[derive(Debug)]
pub struct World {
    pub(crate) seed: u64,
    pub(crate) names: Arc<[String]>,
    pub(crate) roles: Arc<[NodeRole]>,
    pub(crate) ports: Ports,
    pub(crate) outside: Outside,
    pub(crate) links: Links,
    pub(crate) changes: Changes,
    pub(crate) packets: Slab,
    pub(crate) routes: Arc<Routes>,
    pub(crate) routers: Arc<[Router]>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) arps: Sparse<ArpCache>,
    pub(crate) flows: Sparse<Flow>,
    pub(crate) sources: Sparse<Source>,
    /// Descriptions of all traffic, if this is one of several parts of a network.
    pub(crate) lines: Option<Arc<Lines>>,
    pub(crate) counters: Counters,
    pub(crate) crossings: Crossings,
    pub(crate) residents: Residents,
    pub(crate) icmp_limits: IcmpLimits,
    pub(crate) fluid: Fluid,
    pub(crate) kernel_timers: KernelTimers,
}

/// Configuration.
impl World {
    /// Adds a TCP flow between two hosts.
    ///
    /// # Errors
    ///
    /// Fails if one of them is not a host, if there is no route between them, or if the
    /// configuration is invalid.
    pub fn add_tcp(
        &mut self,
        from: Node,
        to: Node,
        config: TcpConfig,
    ) -> Result<FlowId, BuildError> {
        if let Some(fault) = config.fault() {
            return Err(BuildError::BadTraffic(fault));
        }
        let (from, to) = self.ends(from, to)?;
        self.flows.push(Flow::new(from, to, &config));
        Ok(FlowId(number_of(self.flows.len()) - 1))
    }

    /// Adds a source of datagrams between two hosts.
    ///
    /// # Errors
    ///
    /// Fails if one of them is not a host, if there is no route between them, or if the
    /// configuration is invalid.
    pub fn add_traffic(
        &mut self,
        from: Node,
        to: Node,
        config: TrafficConfig,
    ) -> Result<TrafficSourceId, BuildError> {
        if let Some(fault) = config.fault() {
            return Err(BuildError::BadTraffic(fault));
        }
        let (from, to) = self.ends(from, to)?;
        let index = number_of(self.sources.len());
        let random = Random::new(self.seed, 1 << 32 | u64::from(index));
        self.sources.push(Source::new(config, from, to, random));
        Ok(TrafficSourceId(index))
    }

    /// Sets whether the far end of the link out of `port` can be reached. If it cannot, the link
    /// drops and counts all packets offered to it; packets in flight still arrive.
    pub fn set_reachable(&mut self, port: PortId, reachable: bool) {
        self.links.prepare();
        self.links[port].set_reachable(reachable);
    }
}

/// Transmission of packets on links.
impl World {
    /// Offers a packet to the link out of `port`.
    #[inline]
    pub(crate) fn transmit<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        if self.packets[id].kind == PacketKind::Raw {
            return self.transmit_raw(port, id, agenda);
        }
        self.transmit_one(port, id, agenda);
    }

    /// Offers a packet of a real program to the link out of `port`. Routers have checked its
    /// length. A packet from a station or switch that is too long for the link is lost.
    #[cold]
    fn transmit_raw<Q: EventQueue>(&mut self, port: PortId, id: PacketId, agenda: &mut Agenda<Q>) {
        if self.is_too_long(port, id) {
            self.counters.too_long += u64::from(self.packets[id].segments());
            return self.packets.remove(id);
        }
        if self.packets[id].segments() > 1 {
            return self.transmit_train(port, id, agenda);
        }
        self.transmit_one(port, id, agenda);
    }

    /// Offers a packet to the link out of `port` as a single packet, not cut into segments.
    #[inline]
    pub(crate) fn transmit_one<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let link = &mut self.links[port];
        match link.offer(agenda.now(), id, &mut self.packets) {
            Offered::Queued | Offered::Dropped => {}
            Offered::Arrival(at) => {
                let node = NodeId(self.ports[port].peer_node);
                agenda.schedule(at, node, Token::ARRIVAL | port.0);
            }
            Offered::EndOfTransmission(at) => {
                let node = NodeId(self.ports[port].node);
                agenda.schedule(at, node, Token::END | port.0);
            }
            Offered::Crosses(first) => {
                let mut next = Some(first);
                while let Some(id) = next {
                    next = self.packets.after(id);
                    self.export(port, id);
                }
            }
        }
    }

    pub(crate) fn ends(&self, from: Node, to: Node) -> Result<(PortId, PortId), BuildError> {
        let name = |node: Node| self.names[node.0 as usize].clone();
        for node in [from, to] {
            if !matches!(self.roles[node.0 as usize], NodeRole::Host) {
                return Err(BuildError::NotAHost(name(node)));
            }
        }
        let ends = [from, to].map(|node| self.ports.first_of(node.0));
        let there = self.reaches(from, ends[1]);
        let back = self.reaches(to, ends[0]);
        if !there || !back {
            return Err(BuildError::NoRoute(name(from), name(to)));
        }
        Ok((ends[0], ends[1]))
    }

    /// Returns true if there is a shortest path from a host to an interface. Static routes are
    /// ignored: they affect which path is used, but not the existence of a path.
    fn reaches(&self, from: Node, to: PortId) -> bool {
        let here = self.ports.first_of(from.0);
        if self.ports[here].segment == self.ports[to].segment {
            return true;
        }
        let gateway = self.ports.gateway_of(from.0);
        let target = self.ports[to].target;
        if gateway == PortId::NONE || target == NIL {
            return false;
        }
        match self.roles[self.ports[gateway].node as usize] {
            NodeRole::Router(router) => {
                router == target || self.routes.hop(router, target, 0).is_some()
            }
            _ => false,
        }
    }
}
