//! A network that runs: the model that the engine drives.

use std::net::Ipv4Addr;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, Event, Model, NodeId, Random};
use timeloom_time::{Duration, Instant, Virtual};

use crate::build::Node;
use crate::error::BuildError;
use crate::fluid::Fluid;
use crate::link::{Link, LinkStats, Offered};
use crate::node::arp::Arp;
use crate::node::crossing::Crossings;
use crate::node::host::{Flow, NO_GATEWAY};
use crate::node::raw::Outside;
use crate::node::resident::Residents;
use crate::node::router::Router;
use crate::node::switch::Switch;
use crate::node::traffic::{Source, TrafficConfig, TrafficStats};
use crate::packet::{Kind, NIL, Packet, PortId};
use crate::route::Routes;
use crate::tables::icmp_limit::IcmpLimits;
use crate::tables::slab::{PacketId, Slab};
use crate::tcp::{Receiver, Sender, TcpConfig, TcpStats};

/// A TCP flow of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId(pub u32);

/// A source of datagrams of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceId(pub u32);

/// What has happened in a world, beyond single links and flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came to the end of a link.
    pub hops: u64,
    /// Packets for which a router or host had no route.
    pub no_route: u64,
    /// Packets whose time to live ran out.
    pub ttl_exceeded: u64,
    /// Packets whose next hop never answered an ARP request.
    pub arp_failed: u64,
    /// Frames whose tag a switch's port does not take.
    pub bad_vlan: u64,
    /// Packets for somebody else.
    pub not_for_us: u64,
    /// What real programs sent and is no IPv4 packet, or no Ethernet frame.
    pub malformed: u64,
    /// Packets of real programs that a link does not take for their length, and
    /// that must not be cut.
    pub too_long: u64,
    /// ICMP errors sent to real programs.
    pub icmp_errors: u64,
    /// ICMP errors not sent because there had been many.
    pub icmp_limited: u64,
    /// Packets for real programs that nobody took out in time.
    pub not_taken: u64,
}

/// What is often looked up about a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) node: u32,
    pub(crate) peer_node: u32,
    pub(crate) segment: u32,
    /// The router that serves the segment, [`NIL`] when none does.
    pub(crate) target: u32,
    /// Index of the ARP state, [`NIL`] where no LAN is.
    pub(crate) arp: u32,
}

/// What a node is, and where its state is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Host,
    Router(u32),
    Switch(u32),
}

/// A network that runs.
#[derive(Debug)]
pub struct World {
    pub(crate) seed: u64,
    pub(crate) names: Vec<String>,
    pub(crate) places: Vec<Place>,
    /// The first port of each node, [`PortId::NONE`] without one.
    pub(crate) first_port: Vec<PortId>,
    /// Each host's router.
    pub(crate) gateways: Vec<PortId>,
    pub(crate) ports: Vec<Port>,
    pub(crate) addresses: Vec<(u32, u8)>,
    /// All interfaces by address, sorted.
    pub(crate) by_address: Vec<(u32, PortId)>,
    pub(crate) outside: Outside,
    /// How long a link may be busy with one train.
    pub(crate) train_time: Duration,
    pub(crate) links: Vec<Link>,
    pub(crate) packets: Slab,
    pub(crate) routes: Routes,
    pub(crate) routers: Vec<Router>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) arps: Vec<Arp>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) sources: Vec<Source>,
    pub(crate) next_sizes: Vec<u16>,
    pub(crate) counters: Counters,
    pub(crate) crossings: Crossings,
    pub(crate) residents: Residents,
    pub(crate) icmp_limits: IcmpLimits,
    pub(crate) fluid: Fluid,
}

/// Event tokens: four bits of kind, 28 of index.
pub(crate) struct Token;

impl Token {
    /// The first packet of this link arrives.
    pub(crate) const ARRIVAL: u32 = 0;
    /// This link's transmitter has sent its packet.
    const END: u32 = 1 << 28;
    /// The first of the packets that travel alone on this link arrives.
    pub(crate) const SINGLE: u32 = 2 << 28;
    pub(crate) const SENDER: u32 = 3 << 28;
    pub(crate) const RECEIVER: u32 = 4 << 28;
    pub(crate) const SOURCE: u32 = 5 << 28;
    pub(crate) const ARP: u32 = 6 << 28;
    const START: u32 = 7 << 28;
    /// This resident is due.
    pub(crate) const RESIDENT: u32 = 8 << 28;
    /// The transmission with this number of a resident's frame begins.
    pub(crate) const DEPARTURE: u32 = 9 << 28;
    /// A step of all fluid flows.
    pub(crate) const FLUID: u32 = 10 << 28;
    pub(crate) const INDEX: u32 = (1 << 28) - 1;
}

impl<Q: EventQueue> Model<Q> for World {
    #[inline]
    fn handle(&mut self, event: Event, agenda: &mut Agenda<Q>) {
        let index = event.token & Token::INDEX;
        match event.token & !Token::INDEX {
            Token::ARRIVAL => {
                let (first, next) = self.links[index as usize].arrive(&self.packets);
                if let Some(at) = next {
                    agenda.schedule(at, event.node, event.token);
                }
                if let Some(id) = first {
                    self.deliver(event.node, PortId(index).peer(), id, agenda);
                }
            }
            Token::END => self.end_of_transmission(PortId(index), agenda),
            Token::SINGLE => {
                if let Some(id) = self.links[index as usize].take_single() {
                    self.deliver(event.node, PortId(index).peer(), id, agenda);
                }
            }
            Token::SENDER => self.handle_sender_timer(index, agenda),
            Token::RECEIVER => self.handle_receiver_timer(index, agenda),
            Token::SOURCE => self.handle_source(index, agenda),
            Token::ARP => self.handle_arp_timer(PortId(index), agenda),
            Token::RESIDENT => self.wake_resident(index, agenda),
            Token::FLUID => self.handle_fluid_step(agenda),
            Token::DEPARTURE => self.departed(index, Some(event.at), agenda),
            _ => self.pump(index, agenda),
        }
    }
}

impl World {
    /// Makes the first appointments of all flows and sources. To be called
    /// once, at the beginning.
    pub fn start<Q: EventQueue>(&mut self, agenda: &mut Agenda<Q>) {
        for (index, flow) in self.flows.iter().enumerate() {
            let node = NodeId(self.ports[flow.from.index()].node);
            if !self.crossings.owns(node.0) {
                continue;
            }
            let at = flow.start.max(agenda.now());
            agenda.schedule(at, node, Token::START | index as u32);
        }
        for index in 0..self.sources.len() as u32 {
            let from = self.sources[index as usize].from;
            if self.crossings.owns(self.ports[from.index()].node) {
                self.schedule_source(index, agenda);
            }
        }
        self.start_residents(agenda);
        self.start_fluid(agenda);
    }

    /// Adds a TCP flow between two hosts.
    ///
    /// # Errors
    ///
    /// When one of them is no host, there is no way between them, or the
    /// configuration makes no sense.
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
        self.flows.push(Flow {
            sender: Sender::new(&config),
            receiver: Receiver::new(&config),
            from,
            to,
            segment_bytes: config.segment_bytes,
            start: config.start,
            sender_timer: Instant::FAR_FUTURE,
            receiver_timer: Instant::FAR_FUTURE,
        });
        Ok(FlowId(self.flows.len() as u32 - 1))
    }

    /// Adds a source of datagrams between two hosts.
    ///
    /// # Errors
    ///
    /// When one of them is no host, there is no way between them, or the
    /// configuration makes no sense.
    pub fn add_traffic(
        &mut self,
        from: Node,
        to: Node,
        config: TrafficConfig,
    ) -> Result<SourceId, BuildError> {
        if let Some(fault) = config.fault() {
            return Err(BuildError::BadTraffic(fault));
        }
        let (from, to) = self.ends(from, to)?;
        let index = self.sources.len() as u32;
        let random = Random::new(self.seed, 1 << 32 | u64::from(index));
        self.sources.push(Source::new(config, from, to, random));
        self.next_sizes.push(0);
        Ok(SourceId(index))
    }

    /// Whether packets find their way between two hosts, there and back.
    ///
    /// # Errors
    /// When one of them is no host, or there is no way.
    pub fn check_route(&self, from: Node, to: Node) -> Result<(), BuildError> {
        self.ends(from, to).map(drop)
    }

    pub(crate) fn ends(&self, from: Node, to: Node) -> Result<(PortId, PortId), BuildError> {
        let name = |node: Node| self.names[node.0 as usize].clone();
        for node in [from, to] {
            if !matches!(self.places[node.0 as usize], Place::Host) {
                return Err(BuildError::NotAHost(name(node)));
            }
        }
        let ends = [from, to].map(|node| self.first_port[node.0 as usize]);
        let there = self.reaches(from, ends[1]);
        let back = self.reaches(to, ends[0]);
        if !there || !back {
            return Err(BuildError::NoRoute(name(from), name(to)));
        }
        Ok((ends[0], ends[1]))
    }

    /// Whether a host reaches an interface by shortest paths. Static routes
    /// are not followed: they change ways, not what is connected.
    fn reaches(&self, from: Node, to: PortId) -> bool {
        let here = self.first_port[from.0 as usize];
        if self.ports[here.index()].segment == self.ports[to.index()].segment {
            return true;
        }
        let gateway = self.gateways[from.0 as usize];
        let target = self.ports[to.index()].target;
        if gateway == NO_GATEWAY || target == NIL {
            return false;
        }
        match self.places[self.ports[gateway.index()].node as usize] {
            Place::Router(router) => {
                router == target || self.routes.hop(router, target, 0).is_some()
            }
            _ => false,
        }
    }

    /// Puts a packet on the link out of `port`.
    #[inline]
    pub(crate) fn transmit<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        if self.packets[id].kind == Kind::Raw {
            return self.transmit_raw(port, id, agenda);
        }
        self.transmit_one(port, id, agenda);
    }

    /// The same for what a real program sent. Routers have seen to its length;
    /// what a station or switch puts on a link that does not take it is lost.
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

    /// The same for a packet that is not to be cut.
    #[inline]
    pub(crate) fn transmit_one<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let link = &mut self.links[port.index()];
        match link.offer(agenda.now(), id, &mut self.packets) {
            Offered::Queued | Offered::Dropped => {}
            Offered::Arrival(at) => {
                let node = NodeId(self.ports[port.index()].peer_node);
                agenda.schedule(at, node, Token::ARRIVAL | port.0);
            }
            Offered::EndOfTransmission(at) => {
                let node = NodeId(self.ports[port.index()].node);
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

    fn end_of_transmission<Q: EventQueue>(&mut self, port: PortId, agenda: &mut Agenda<Q>) {
        let link = &mut self.links[port.index()];
        let done = link.end_of_transmission(agenda.now(), &mut self.packets);
        let Port {
            node, peer_node, ..
        } = self.ports[port.index()];
        if let Some(at) = done.next_end {
            agenda.schedule(at, NodeId(node), Token::END | port.0);
        }
        if let Some(number) = done.begun {
            self.departed(number, Some(agenda.now()), agenda);
        }
        for id in done.packets.into_iter().flatten() {
            if self.crossings.is_cut(port) {
                self.export(port, id);
                self.packets.remove(id);
                continue;
            }
            let at = self.packets[id].at;
            self.links[port.index()].add_single(at, id);
            agenda.schedule(at, NodeId(peer_node), Token::SINGLE | port.0);
        }
    }

    #[inline]
    fn deliver<Q: EventQueue>(
        &mut self,
        node: NodeId,
        into: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        self.counters.hops += 1;
        let packet = &self.packets[id];
        if packet.flags & Packet::LOST != 0 {
            return self.packets.remove(id);
        }
        if packet.kind == Kind::Raw {
            return self.deliver_raw(node, into, id, agenda);
        }
        match self.places[node.0 as usize] {
            Place::Host => self.receive(into, id, agenda),
            Place::Router(_) if matches!(packet.kind, Kind::ArpRequest | Kind::ArpReply) => {
                self.handle_arp(into, id, agenda);
            }
            Place::Router(index) => self.forward(node.0, index, id, agenda),
            Place::Switch(index) => self.bridge(index, into, id, agenda),
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets that exist now: waiting or in flight.
    pub fn packets_alive(&self) -> usize {
        self.packets.live()
    }

    /// What the link out of `port` has done.
    pub fn link(&self, port: PortId) -> LinkStats {
        self.links[port.index()].stats
    }

    /// Packets that wait for the link out of `port` at `now`.
    pub fn waiting(&mut self, port: PortId, now: Instant<Virtual>) -> u32 {
        self.links[port.index()].waiting(now, &self.packets)
    }

    /// Puts the link out of `port` up or down: while it is down, all that is
    /// offered to it is dropped and counted. What is in flight still arrives.
    pub fn set_link_up(&mut self, port: PortId, up: bool) {
        self.links[port.index()].set_up(up);
    }

    /// Bytes of the longest IP packet that the link out of `port` takes.
    pub fn mtu(&self, port: PortId) -> u16 {
        self.links[port.index()].mtu()
    }

    /// The address of an interface.
    pub fn address(&self, port: PortId) -> Ipv4Addr {
        Ipv4Addr::from(self.addresses[port.index()].0)
    }

    /// The first port of a node.
    pub fn port_of(&self, node: Node) -> Option<PortId> {
        let port = self.first_port[node.0 as usize];
        (port != PortId::NONE).then_some(port)
    }

    /// What a flow has done so far.
    pub fn tcp(&self, flow: FlowId) -> TcpStats {
        let flow = &self.flows[flow.0 as usize];
        TcpStats {
            delivered_bytes: flow.receiver.next * u64::from(flow.segment_bytes),
            retransmitted: flow.sender.retransmitted,
            slowed_by_marks: flow.sender.slowed_by_marks,
            timeouts: flow.sender.timeouts,
            window: flow.sender.window(),
            smoothed_rtt: flow.sender.smoothed_rtt(),
            finished_at: flow.sender.finished_at,
        }
    }

    /// What has become of a source's packets.
    pub fn traffic(&self, source: SourceId) -> TrafficStats {
        self.sources[source.0 as usize].stats
    }
}
