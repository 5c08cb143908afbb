//! Parts of one network in several engines.
//!
//! Each engine has a part of one world ([`World::part`]), in which the numbers of ports, flows and
//! nodes are the same as in all other parts. Another process builds the same network, adds the same
//! traffic, and then drops the rest ([`World::keep_only`]).
//!
//! A cable between a node that is kept and one that is not is *cut*: its transmitter and queue are
//! at the sending end. A packet on a cut cable leaves the world at once, with its arrival time
//! computed ([`World::crossings`]). The caller passes the packet to the engine of the far end,
//! which lets it arrive at that time ([`World::take_over`]).
//!
//! `timeloom_emulation::peering` transports packets between engines, and handles packets that are late.

use std::sync::Arc;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::Duration;
use timeloom_time::convert::number_of;

use crate::ids::{NodeRole, Token};
use crate::link::Offered;
use crate::node::raw::is_known_here_only;
use crate::packet::{Packet, PacketKind, PortId};
use crate::tables::crossings::{Arrival, Crossings, Owner};
use crate::tables::flow::{FlowDescription, Lines};
use crate::tables::icmp_limit::IcmpLimits;
use crate::tables::kernel_timers::KernelTimers;
use crate::tables::residents::Residents;
use crate::tables::slab::{PacketId, Slab};
use crate::tables::stats::Counters;
use crate::tables::switch::Switch;
use crate::tcp::HEADER_BYTES;
use crate::world::World;

impl World {
    /// Returns the part of this network for engine `here`; `owners` gives the engine of every node.
    /// Must be called after all traffic has been added, and before [`World::start`]. Residents stay
    /// in this world, and no host of the part is open to real programs.
    ///
    /// Constant data is shared with this world and its other parts. Of the rest, a part contains
    /// the links, neighbours and traffic with an end at one of its nodes.
    ///
    /// # Panics
    ///
    /// Panics if the length of `owners` is not the number of nodes.
    pub fn part(&self, owners: &Arc<[Owner]>, here: Owner) -> Self {
        assert_eq!(owners.len(), self.roles.len(), "one owner for each node");
        let ports = &self.ports;
        let owns = |node: u32| owners[node as usize] == here;
        let has = |port: PortId| owns(ports[port].node);
        let mut links = self.links.part(|port| has(port) || has(port.peer()));
        let mut neighbours = vec![false; self.arps.len()];
        for (port, place) in (0..).map(PortId).zip(ports.iter()) {
            let (from, to) = (owns(place.node), owns(place.peer_node));
            if let (true, Some(link)) = (from || to, links.get_mut(port)) {
                link.set_crosses(from && !to);
            }
            if let (true, Some(cache)) = (from, neighbours.get_mut(place.arp as usize)) {
                *cache = true;
            }
        }
        let mut switches: Vec<Switch> = Vec::new();
        switches.resize_with(self.switches.len(), Switch::elsewhere);
        for (role, node) in self.roles.iter().zip(0..) {
            if let (NodeRole::Switch(index), true) = (role, owns(node)) {
                switches[*index as usize] = self.switches[*index as usize].clone();
            }
        }
        let ends = |from, to| has(from) || has(to);
        let mut crossings = Crossings::default();
        crossings.keep_only(owners, here);
        Self {
            seed: self.seed,
            names: Arc::clone(&self.names),
            roles: Arc::clone(&self.roles),
            ports: ports.clone(),
            outside: self.outside.part(),
            links,
            changes: self.changes.clone(),
            packets: Slab::new(),
            routes: Arc::clone(&self.routes),
            routers: Arc::clone(&self.routers),
            switches,
            arps: self.arps.part(|cache, _| neighbours[cache as usize]),
            flows: self.flows.part(|_, flow| ends(flow.from, flow.to)),
            sources: self
                .sources
                .part(|_, source| ends(source.from(), source.to())),
            lines: Some(self.lines()),
            counters: Counters::default(),
            crossings,
            residents: Residents::default(),
            icmp_limits: IcmpLimits::default(),
            fluid: self.fluid_part(owners, here),
            kernel_timers: KernelTimers::default(),
        }
    }

    /// Keeps only the nodes of engine `here`, as [`World::part`] does, but with their residents and
    /// with their openings to real programs.
    ///
    /// # Panics
    ///
    /// Panics like [`World::part`].
    pub fn keep_only(&mut self, owners: &Arc<[Owner]>, here: Owner) {
        let part = self.part(owners, here);
        let whole = core::mem::replace(self, part);
        (self.residents, self.outside) = (whole.residents, whole.outside);
        if whole.crossings.notes_arrivals() {
            self.crossings.note_arrivals();
        }
    }

    /// Returns static descriptions of all traffic.
    fn lines(&self) -> Arc<Lines> {
        if let Some(lines) = &self.lines {
            return Arc::clone(lines);
        }
        Arc::new(Lines {
            flows: self
                .flows
                .iter()
                .map(|(_, flow)| FlowDescription::of_flow(flow))
                .collect(),
            sources: self
                .sources
                .iter()
                .map(|(_, it)| FlowDescription::of_source(it))
                .collect(),
        })
    }

    /// Returns the size in bytes of this world's variable state: links, neighbours, switches and
    /// traffic. Packets, and data that all parts of a network share, are not included.
    pub fn state_bytes(&self) -> usize {
        self.links.bytes()
            + self.arps.bytes()
            + self.flows.bytes()
            + self.sources.bytes()
            + size_of::<Switch>() * self.switches.capacity()
    }

    /// Returns a packet of this kind as the sending host of the flow or source creates it; `None`
    /// if there is none. Encodings describe packets by their differences from it.
    pub fn template(&self, kind: PacketKind, flow: u32) -> Option<Packet> {
        let (src, dst, size) = match kind {
            PacketKind::TcpData
            | PacketKind::TcpSyn
            | PacketKind::TcpAck
            | PacketKind::TcpSynAck => {
                let line = self.flow_line(flow)?;
                match kind {
                    PacketKind::TcpData => (line.from, line.to, line.bytes + HEADER_BYTES),
                    PacketKind::TcpSyn => (line.from, line.to, HEADER_BYTES),
                    _ => (line.to, line.from, HEADER_BYTES),
                }
            }
            PacketKind::Udp | PacketKind::EchoRequest | PacketKind::EchoReply => {
                let line = self.source_line(flow)?;
                match kind {
                    PacketKind::EchoReply => (line.to, line.from, line.bytes),
                    _ => (line.from, line.to, line.bytes),
                }
            }
            PacketKind::ArpRequest | PacketKind::ArpReply | PacketKind::Raw | PacketKind::Fluid => {
                return None;
            }
        };
        Some(Packet::new(kind, src, dst, flow, size))
    }

    /// Records from now on every packet of a flow or source that arrives at its host, for
    /// comparisons of runs. Each arrival takes memory.
    pub fn note_arrivals(&mut self) {
        self.crossings.note_arrivals();
    }

    /// Returns the recorded arrivals.
    pub fn arrivals(&self) -> &[Arrival] {
        self.crossings.arrivals()
    }

    /// Returns the packets that have left for other engines since the last [`Crossings::clear`].
    pub fn crossings(&mut self) -> &mut Crossings {
        &mut self.crossings
    }

    /// Returns true if a packet has left for another engine and has not been cleared.
    pub fn has_crossing(&self) -> bool {
        !self.crossings.packets.is_empty()
    }

    /// Moves a packet that leaves by the cut link `port` to the packets for other engines.
    #[inline]
    pub(crate) fn export(&mut self, port: PortId, id: PacketId) {
        let mut packet = self.packets[id];
        if packet.flags & Packet::LOST != 0 {
            self.crossings.count_lost();
            return;
        }
        packet.link = port;
        if packet.kind == PacketKind::Raw || is_known_here_only(&packet) {
            let echo = self.echo_to_leave(&packet);
            // On a cut link trains are always divided, so the packet is a single segment.
            let bytes = self.bytes_to_leave(&mut packet);
            match u16::try_from(bytes.len()) {
                Ok(size) => {
                    packet.size = size;
                    packet.set_segments(0, 1, 0);
                    if let Some(echo) = echo {
                        packet.put_echo(echo);
                    }
                    self.crossings.push(packet, &bytes);
                }
                // The frame would be too long with its own header.
                Err(_) => self.crossings.count_lost(),
            }
            return self.outside.return_scratch(bytes);
        }
        self.crossings.push(packet, &[]);
    }

    /// Takes over a packet from another engine; `bytes` are those of a real packet. The packet
    /// arrives at [`Packet::at`], or now if that instant has passed. Returns the delay after that
    /// instant, or `None` if the packet is invalid here: this engine has no end of the link, or
    /// numbers are unknown.
    pub fn take_over<Q: EventQueue>(
        &mut self,
        packet: &Packet,
        bytes: &[u8],
        agenda: &mut Agenda<Q>,
    ) -> Option<Duration> {
        if !self.makes_sense(packet, bytes) {
            return None;
        }
        let port = packet.link;
        let at = packet.at.max(agenda.now());
        let late = at - packet.at;
        let id = if late > Duration::ZERO || packet.kind == PacketKind::Raw {
            let mut packet = Packet { at, ..*packet };
            if packet.kind == PacketKind::Raw && !self.take_over_bytes(&mut packet, bytes) {
                return None;
            }
            self.packets.insert(packet)
        } else {
            self.packets.insert(*packet)
        };
        let node = NodeId(self.ports[port].peer_node);
        let link = &mut self.links[port];
        match link.take_over(id, &mut self.packets) {
            Some(Offered::Arrival(at)) => agenda.schedule(at, node, Token::ARRIVAL | port.0),
            Some(_) => {}
            None => {
                link.add_single(at, id);
                agenda.schedule(at, node, Token::SINGLE | port.0);
            }
        }
        Some(late)
    }

    /// Handles a restart of engine `there`, whose hosts have lost all connections. An endless TCP
    /// flow between one of them and a host of this engine is opened again, as engine `there` does
    /// too ([`World::start`]). Other flows stay broken off.
    pub fn reopen<Q: EventQueue>(&mut self, there: Owner, agenda: &mut Agenda<Q>) {
        let owner = |port: PortId| self.crossings.owner(self.ports[port].node);
        let flows = self.flows.iter().filter(|(_, flow)| {
            let begun = flow.start <= agenda.now() && flow.sender.is_endless();
            begun && [flow.from, flow.to].map(owner).contains(&Some(there))
        });
        let flows: Vec<u32> = flows.map(|(index, _)| index).collect();
        for index in flows {
            let flow = &mut self.flows[index];
            flow.reopen();
            let node = NodeId(self.ports[flow.from].node);
            if self.crossings.owns(node.0) {
                agenda.schedule(agenda.now(), node, Token::START | index);
            }
        }
    }

    fn makes_sense(&self, packet: &Packet, bytes: &[u8]) -> bool {
        let ports = number_of(self.ports.len());
        let Some(link) = self.ports.get(packet.link) else {
            return false;
        };
        let ours = !self.crossings.owns(link.node) && self.crossings.owns(link.peer_node);
        let exists = |port: PortId| port.0 < ports;
        let station = |port: PortId| exists(port) || port == PortId::NONE;
        // A packet whose ends differ from those of its flow could arrive at a host that does not
        // have the flow.
        let belongs = match packet.kind {
            PacketKind::TcpData
            | PacketKind::TcpAck
            | PacketKind::TcpSyn
            | PacketKind::TcpSynAck
            | PacketKind::Udp
            | PacketKind::EchoRequest
            | PacketKind::EchoReply => {
                let template = self.template(packet.kind, packet.flow);
                template.is_some_and(|it| (it.src, it.dst) == (packet.src, packet.dst))
            }
            PacketKind::ArpRequest | PacketKind::ArpReply => true,
            PacketKind::Fluid => self.fluid.understands(packet),
            PacketKind::Raw => {
                bytes.len() == usize::from(packet.size) && bytes.len() >= LEAST_BYTES
            }
        };
        ours && belongs
            && exists(packet.src)
            && (exists(packet.dst) || packet.kind == PacketKind::Raw && station(packet.dst))
            && station(packet.src_mac)
            && station(packet.dst_mac)
    }
}

/// Minimum length of a packet from another engine, in bytes: a frame has at least its header, and
/// an IP packet a header of 20 bytes.
const LEAST_BYTES: usize = 14;
