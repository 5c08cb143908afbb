//! A network that runs: the model that the engine drives.

use std::net::Ipv4Addr;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId, Random};
use timeloom_time::{Duration, Instant, Virtual};

use crate::error::BuildError;
use crate::fluid::Fluid;
use crate::ids::{FlowId, Node, Place, SourceId, Token};
use crate::link::{Link, Offered};
use crate::packet::{Kind, NIL, PortId};
use crate::route::Routes;
use crate::tables::arp::Arp;
use crate::tables::crossings::Crossings;
use crate::tables::flow::Flow;
use crate::tables::icmp_limit::IcmpLimits;
use crate::tables::outside::Outside;
use crate::tables::ports::Port;
use crate::tables::residents::Residents;
use crate::tables::router::Router;
use crate::tables::slab::{PacketId, Slab};
use crate::tables::source::{Source, TrafficConfig, TrafficStats};
use crate::tables::stats::{Counters, LinkStats};
use crate::tables::switch::Switch;
use crate::tcp::{Receiver, Sender, TcpConfig, TcpStats};

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

impl World {
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
        if gateway == PortId::NONE || target == NIL {
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

/// How long a link may be busy with one train, where nobody says: at 10 Gbit/s 64 KiB take 54 µs,
/// at 1 Gbit/s four segments take 49 µs.
pub(crate) const TRAIN_TIME: Duration = Duration::from_us(60);
