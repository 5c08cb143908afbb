//! Parts of one network in several engines.
//!
//! Every engine builds the same network and adds the same flows and sources,
//! so that numbers of ports, flows and nodes mean the same everywhere, and
//! then keeps some of the nodes ([`World::keep_only`]). A cable between a node that
//! is kept and one that is not is *cut*: its transmitter and queue are at the
//! sending end; a packet that is put on it leaves at once, with its instant of
//! arrival computed ([`World::crossings`]), and is handed to the engine of the
//! other end, which lets it arrive then ([`World::take_over`]).
//!
//! Not here: how packets get from engine to engine, and what happens to those
//! that come too late. That is `timeloom-peering`.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::Duration;

use crate::ids::Token;
use crate::link::Offered;
use crate::node::raw::is_known_here_only;
use crate::packet::{Kind, Packet, PortId};
use crate::tables::crossings::{Arrival, Crossings, Owner};
use crate::tables::slab::PacketId;
use crate::tcp::HEADER_BYTES;
use crate::world::World;

impl World {
    /// Keeps the nodes of engine `here`; `owners` says for every node which
    /// engine has it. To be called before [`World::start`].
    ///
    /// # Panics
    ///
    /// When `owners` has another length than there are nodes.
    pub fn keep_only(&mut self, owners: &[Owner], here: Owner) {
        assert_eq!(owners.len(), self.roles.len(), "one owner for each node");
        let owner = |node: u32| owners[node as usize];
        let cut = self.ports.iter().map(|port| {
            let (from, to) = (owner(port.node), owner(port.peer_node));
            from == here && to != here
        });
        let cut: Vec<bool> = cut.collect();
        for (link, cut) in self.links.iter_mut().zip(&cut) {
            link.set_crosses(*cut);
        }
        self.crossings.keep_only(owners, here, cut);
    }

    /// A packet of this kind as the host sends it that has this flow or source,
    /// for those who describe packets by what they differ in.
    pub fn template(&self, kind: Kind, flow: u32) -> Option<Packet> {
        let index = flow as usize;
        let (src, dst, size) = match kind {
            Kind::TcpData | Kind::TcpSyn | Kind::TcpAck | Kind::TcpSynAck => {
                let ends = self.flows.get(index)?;
                match kind {
                    Kind::TcpData => (ends.from, ends.to, ends.segment_bytes + HEADER_BYTES),
                    Kind::TcpSyn => (ends.from, ends.to, HEADER_BYTES),
                    _ => (ends.to, ends.from, HEADER_BYTES),
                }
            }
            Kind::Udp | Kind::EchoRequest | Kind::EchoReply => {
                let source = self.sources.get(index)?;
                let size = source.fixed_size().unwrap_or(0);
                match kind {
                    Kind::EchoReply => (source.to(), source.from(), size),
                    _ => (source.from(), source.to(), size),
                }
            }
            Kind::ArpRequest | Kind::ArpReply | Kind::Raw => return None,
        };
        Some(Packet::new(kind, src, dst, flow, size))
    }

    /// Notes every packet of a flow or source that comes to its host from now
    /// on, for comparisons of runs; costs memory for each.
    pub fn note_arrivals(&mut self) {
        self.crossings.note_arrivals();
    }

    /// What has been noted.
    pub fn arrivals(&self) -> &[Arrival] {
        self.crossings.arrivals()
    }

    /// What has left for other engines and has not been cleared away.
    pub fn crossings(&mut self) -> &mut Crossings {
        &mut self.crossings
    }

    /// A packet leaves by the cut link `port`.
    #[inline]
    pub(crate) fn export(&mut self, port: PortId, id: PacketId) {
        let mut packet = self.packets[id];
        if packet.flags & Packet::LOST != 0 {
            self.crossings.count_lost();
            return;
        }
        packet.link = port;
        if packet.kind == Kind::Raw || is_known_here_only(&packet) {
            // On a cut link trains are always cut, so this is one segment.
            let bytes = self.bytes_to_leave(&mut packet);
            match u16::try_from(bytes.len()) {
                Ok(size) => {
                    packet.size = size;
                    packet.set_segments(0, 1, 0);
                    self.crossings.push(packet, &bytes);
                }
                // A frame that has no room for its own header.
                Err(_) => self.crossings.count_lost(),
            }
            return self.outside.return_scratch(bytes);
        }
        self.crossings.push(packet, &[]);
    }

    /// A packet comes from another engine; `bytes` are a real packet's. It
    /// arrives at [`Packet::at`], or now when that has passed. The answer is by
    /// how much it came too late, `None` when the packet makes no sense here:
    /// not our end of the link, or numbers that nothing has.
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
        let id = if late > Duration::ZERO || packet.kind == Kind::Raw {
            let mut packet = Packet { at, ..*packet };
            if packet.kind == Kind::Raw && !self.take_over_bytes(&mut packet, bytes) {
                return None;
            }
            self.packets.insert(packet)
        } else {
            self.packets.insert(*packet)
        };
        let node = NodeId(self.ports[port].peer_node);
        let link = &mut self.links[port.index()];
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

    fn makes_sense(&self, packet: &Packet, bytes: &[u8]) -> bool {
        let ports = self.ports.len() as u32;
        let Some(link) = self.ports.get(packet.link) else {
            return false;
        };
        let ours = !self.crossings.owns(link.node) && self.crossings.owns(link.peer_node);
        let exists = |port: PortId| port.0 < ports;
        let station = |port: PortId| exists(port) || port == PortId::NONE;
        let index = packet.flow as usize;
        let belongs = match packet.kind {
            Kind::TcpData | Kind::TcpAck | Kind::TcpSyn | Kind::TcpSynAck => {
                index < self.flows.len()
            }
            Kind::Udp | Kind::EchoRequest | Kind::EchoReply => index < self.sources.len(),
            Kind::ArpRequest | Kind::ArpReply => true,
            Kind::Raw => bytes.len() == usize::from(packet.size) && bytes.len() >= LEAST_BYTES,
        };
        ours && belongs
            && exists(packet.src)
            && (exists(packet.dst) || packet.kind == Kind::Raw && station(packet.dst))
            && station(packet.src_mac)
            && station(packet.dst_mac)
    }
}

/// A frame has a header at least, and an IP packet one of 20 bytes.
const LEAST_BYTES: usize = 14;
