//! Packets of real programs, whose bytes pass the model unchanged.
//!
//! A TCP/IP stack outside of the model opens a host, passes in IP packets, and takes out packets
//! that have arrived. A portal does the same with Ethernet frames (`frame.rs`). In the model these
//! are packets like all others; only their bytes are in a reusable buffer.

use std::net::{IpAddr, Ipv6Addr};

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::convert::number_of;
use timeloom_time::{Instant, Virtual};

use crate::bytes::{self, ArpMessage, IpHeader, NdMessage, V6_HEADER_BYTES};
use crate::ids::{Node, NodeRole};
use crate::node::arp::reply_to_stranger;
use crate::packet::{NIL, Packet, PacketKind, PortId};
use crate::tables::address::Family;
use crate::tables::arp::Neighbour;
use crate::tables::buffers::{Content, Description, ETHERNET, OffloadedWork};
use crate::tables::macs::Macs;
use crate::tables::outside::{Opened, Outbox};
use crate::tables::slab::PacketId;
use crate::world::World;

impl World {
    /// Opens a host for packets of real programs. Packets that arrive at the host wait for
    /// [`World::take_raw`]. At a host that is not open, the model answers echo requests and drops
    /// all other packets of real programs.
    pub fn open(&mut self, node: Node) {
        self.outside.open(node.0, Opened::Packets);
    }

    /// Sends an IP packet from a host. Other bytes are dropped and counted.
    pub fn send_raw<Q: EventQueue>(&mut self, node: Node, bytes: &[u8], agenda: &mut Agenda<Q>) {
        self.links.prepare();
        let Some(ip) = IpHeader::read(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(src) = self.port_of(node) else {
            self.counters.no_route += 1;
            return;
        };
        // The router refuses a destination address that no interface of the network has.
        let dst = self.ports.with_address(ip.dst).unwrap_or(PortId::NONE);
        let bytes = &bytes[..usize::from(ip.length)];
        let packet = self.ip_packet(src, dst, &ip, bytes);
        self.originate(packet, agenda);
    }

    /// Returns a packet for the bytes of an IP packet with header `ip`.
    pub(crate) fn ip_packet(
        &mut self,
        src: PortId,
        dst: PortId,
        ip: &IpHeader,
        bytes: &[u8],
    ) -> Packet {
        let what = Description {
            used: u32::from(ip.length),
            content: Content::Ip,
            start: 0,
            header: ip.header,
            offload: OffloadedWork::default(),
        };
        let buffer = self.packets.buffers.fill(bytes, what);
        let mut packet = Packet::raw(src, dst, buffer, ip.length);
        // A cable between two nodes needs no MAC addresses. But without them a kernel would regard
        // the packet as a broadcast, which its TCP ignores.
        (packet.src_mac, packet.dst_mac) = (src, src.peer());
        packet.describe(ip, bytes);
        packet
    }

    /// Takes the next packet that arrived at an open host: passes the host, the instant and the
    /// bytes to `take`. Returns `None` if there is no packet.
    pub fn take_raw<R>(
        &mut self,
        take: impl FnOnce(Node, Instant<Virtual>, &[u8]) -> R,
    ) -> Option<R> {
        let (node, id) = self.outside.pop(Outbox::Packets)?;
        let packet = self.packets[id];
        let scratch = self.assemble(&packet);
        let taken = take(Node(node), packet.at, &scratch);
        self.outside.return_scratch(scratch);
        self.packets.remove(id);
        Some(taken)
    }

    /// Returns the bytes of a real packet for another engine: an IP packet or an ARP message. If
    /// the other engine could not know its type or MAC addresses, the bytes are the whole frame,
    /// and a flag of the packet says so. The bytes are in the scratch buffer, which the caller must
    /// return.
    pub(crate) fn bytes_to_leave(&mut self, packet: &mut Packet) -> Vec<u8> {
        let is_raw = packet.kind == PacketKind::Raw;
        let content = is_raw.then(|| self.packets.buffers.get(packet.flow).content);
        if is_raw && self.packets.buffers.get(packet.flow).is_open() {
            packet.flags |= Packet::OPEN;
        }
        let here_only = is_known_here_only(packet);
        match content {
            Some(Content::Ip) if !here_only => return self.assemble(packet),
            Some(Content::Arp | Content::Nd) if !here_only => {
                let mut scratch = self.outside.take_scratch();
                scratch.clear();
                scratch.extend_from_slice(self.packets.buffers.get(packet.flow).inner());
                return scratch;
            }
            _ => {}
        }
        let bytes = self.frame_to_leave(packet);
        // On the wire, an ARP message of the model has the minimum length of Ethernet.
        packet.sack_to = u32::from(packet.size);
        packet.kind = PacketKind::Raw;
        packet.flags |= Packet::FRAMED;
        (packet.src_mac, packet.dst_mac) = (PortId::NONE, PortId::NONE);
        bytes
    }

    /// Stores the bytes of a real packet from another engine; returns false if they are invalid.
    pub(crate) fn take_over_bytes(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        let is_open = packet.flags & Packet::OPEN != 0;
        packet.flags &= !Packet::OPEN;
        let echo = packet.take_echo();
        let echo = echo.filter(|echo| (Instant::ZERO..=packet.at).contains(echo));
        if !self.store_bytes(packet, bytes) {
            return false;
        }
        if is_open {
            self.packets.buffers.reopen(packet.flow);
        }
        if let Some(echo) = echo {
            self.packets.buffers.set_echo(packet.flow, echo);
        }
        true
    }

    fn store_bytes(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        if packet.flags & Packet::FRAMED != 0 {
            return self.take_over_frame(packet, bytes);
        }
        let ip = IpHeader::read(bytes).filter(|ip| usize::from(ip.length) == bytes.len());
        let content = match ip {
            Some(ip) if ip.is_neighbour_discovery(bytes) => Content::Nd,
            Some(_) => Content::Ip,
            None if ArpMessage::read(bytes).is_some() => Content::Arp,
            None => return false,
        };
        let what = Description {
            used: number_of(bytes.len()),
            content,
            start: 0,
            header: ip.map_or(0, |ip| ip.header),
            offload: OffloadedWork::default(),
        };
        packet.sack_to = 0;
        if let Some(ip) = ip {
            // The packet has already passed links, and may have a congestion mark.
            let (ttl, tos) = (packet.ttl, packet.tos);
            packet.describe(&ip, bytes);
            (packet.ttl, packet.tos) = (ttl, tos);
        }
        packet.set_segments(0, 1, 0);
        packet.flow = self.packets.buffers.fill(bytes, what);
        true
    }

    fn take_over_frame(&mut self, packet: &mut Packet, frame: &[u8]) -> bool {
        let Some((read, what)) = self.read_frame(frame, OffloadedWork::default()) else {
            return false;
        };
        packet.flags = packet.flags & !(Packet::FRAMED | Packet::IPV6) | read.flags;
        (packet.src_mac, packet.dst_mac) = (read.src_mac, read.dst_mac);
        let said = u16::try_from(packet.sack_to).unwrap_or(0);
        packet.size = read.size.max(said.min(LEAST_ON_WIRE));
        packet.sack_to = read.sack_to;
        packet.set_segments(0, 1, 0);
        packet.flow = self.packets.buffers.fill(frame, what);
        true
    }

    /// Queues a packet for a real program, or drops it if too many packets wait.
    pub(crate) fn queue_outside(
        &mut self,
        outbox: Outbox,
        of: u32,
        id: PacketId,
        now: Instant<Virtual>,
    ) {
        let packet = &mut self.packets[id];
        packet.at = now;
        if !self.outside.push(outbox, of, id, packet.size) {
            self.counters.not_taken += 1;
            self.packets.remove(id);
        }
    }

    /// Returns the bytes of an IP packet, in one piece and with all checksums. They are in the
    /// scratch buffer, which the caller must return.
    pub(crate) fn assemble(&mut self, packet: &Packet) -> Vec<u8> {
        let mut scratch = self.outside.take_scratch();
        let buffer = self.packets.buffers.get(packet.flow);
        let (rest, offload) = buffer.write_head(packet, [[0; 6]; 2], &mut scratch);
        scratch.extend_from_slice(rest);
        if let Some(checksum) = offload.checksum {
            bytes::complete(&mut scratch, checksum.start, checksum.offset);
        }
        scratch.drain(..usize::from(ETHERNET));
        scratch
    }

    /// Returns the whole frame of a real program's packet or of an ARP message, with all checksums.
    /// The bytes are in the scratch buffer, which the caller must return.
    fn frame_to_leave(&mut self, packet: &Packet) -> Vec<u8> {
        let mut whole = Vec::new();
        self.with_frame(packet, |frame| {
            whole.extend_from_slice(frame.head);
            whole.extend_from_slice(frame.rest);
            if let Some(checksum) = frame.offload.checksum {
                bytes::complete(&mut whole, checksum.start, checksum.offset);
            }
        });
        whole
    }

    /// Handles a packet of a real program that arrived at the end of a link.
    #[cold]
    pub(crate) fn deliver_raw<Q: EventQueue>(
        &mut self,
        node: NodeId,
        into: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        if self.packets[id].kind == PacketKind::Fluid {
            // The packet is a message between engines and has not passed a link.
            self.counters.hops -= 1;
            return self.hear_of_fluid(id);
        }
        let link = into.peer();
        if self.outside.is_watched(link) {
            let copy = self.packets.insert(self.packets[id]);
            self.queue_outside(Outbox::Captured, link.0, copy, agenda.now());
        }
        self.packets[id].flags &= !Packet::STAMPED;
        if self.offer_to_resident(node, into, id, agenda) {
            return;
        }
        match self.roles[node.0 as usize] {
            NodeRole::Switch(index) => self.bridge(index, into, id, agenda),
            NodeRole::Host => match self.outside.opened(node.0) {
                Opened::Frames => {
                    if let Some(number) = self.kernel_timers.at(node.0) {
                        self.note_received(number, id, agenda);
                    }
                    self.queue_outside(Outbox::Frames, node.0, id, agenda.now());
                }
                Opened::Packets => self.take_in(node.0, into, id, agenda),
                Opened::No => self.answer_raw(into, id, agenda),
            },
            NodeRole::Router(index) => {
                let content = self.packets.buffers.get(self.packets[id].flow).content;
                if matches!(content, Content::Arp | Content::Nd) {
                    return self.handle_raw_question(into, id, agenda);
                }
                let packet = &self.packets[id];
                let is_lan = self.ports[into].arp != NIL;
                if content != Content::Ip || is_lan && packet.dst_mac != into {
                    self.counters.not_for_us += 1;
                    return self.packets.remove(id);
                }
                self.forward(node.0, index, id, agenda);
            }
        }
    }

    /// Delivers a packet to a stack outside of the model, which accepts single packets only.
    fn take_in<Q: EventQueue>(
        &mut self,
        node: u32,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = self.packets[id];
        match self.packets.buffers.get(packet.flow).content {
            Content::Arp | Content::Nd => return self.handle_raw_question(port, id, agenda),
            Content::Ip if packet.dst == port => {}
            _ => {
                self.counters.not_for_us += 1;
                return self.packets.remove(id);
            }
        }
        let now = agenda.now();
        if packet.segments() == 1 {
            return self.queue_outside(Outbox::Packets, node, id, now);
        }
        for segment in 0..packet.segments() {
            let part = self.piece(&packet, segment, 1);
            let part = self.packets.insert(part);
            self.queue_outside(Outbox::Packets, node, part, now);
        }
        self.packets.remove(id);
    }

    /// Answers requests for the MAC address of a simulated host, and echo requests to it.
    fn answer_raw<Q: EventQueue>(&mut self, port: PortId, id: PacketId, agenda: &mut Agenda<Q>) {
        let packet = self.packets[id];
        match self.packets.buffers.get(packet.flow).content {
            Content::Arp | Content::Nd => return self.handle_raw_question(port, id, agenda),
            Content::Ip if packet.dst == port && packet.segments() == 1 => {
                if let Some(reply) = self.echo_reply(&packet) {
                    let node = Node(self.ports[port].node);
                    self.packets.remove(id);
                    self.send_raw(node, &reply, agenda);
                    self.outside.return_scratch(reply);
                    return;
                }
            }
            _ => {}
        }
        if self.refuse_datagram(port, id, agenda) {
            return;
        }
        self.counters.not_for_us += 1;
        self.packets.remove(id);
    }

    /// Answers echo requests to a router, refuses datagrams, and drops all other packets for the
    /// router.
    pub(crate) fn answer_echo<Q: EventQueue>(
        &mut self,
        node: u32,
        index: u32,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = self.packets[id];
        let buffer = self.packets.buffers.get(packet.flow);
        let back = IpHeader::read(buffer.inner())
            .and_then(|ip| self.ports.with_address(ip.src))
            .filter(|_| packet.segments() == 1);
        let reply = back.and_then(|_| self.echo_reply(&packet));
        let (Some(back), Some(reply)) = (back, reply) else {
            if !self.refuse_datagram(packet.dst, id, agenda) {
                self.counters.not_for_us += 1;
                self.packets.remove(id);
            }
            return;
        };
        self.packets.remove(id);
        let id = self.own_packet(packet.dst, back, &reply);
        self.outside.return_scratch(reply);
        if self.ports[back].node == node {
            return self.packets.remove(id);
        }
        self.forward(node, index, id, agenda);
    }

    /// Returns the reply to an echo request. It is in the scratch buffer, which the caller must
    /// return.
    fn echo_reply(&mut self, packet: &Packet) -> Option<Vec<u8>> {
        let mut scratch = self.assemble(packet);
        if bytes::turn_into_echo_reply(&mut scratch) {
            return Some(scratch);
        }
        self.outside.return_scratch(scratch);
        None
    }

    /// Handles an ARP or neighbour discovery message of a real program at an interface for which
    /// the model answers.
    fn handle_raw_question<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = self.packets[id];
        let buffer = self.packets.buffers.get(packet.flow);
        let said = match buffer.content {
            Content::Nd => NdMessage::read(buffer.inner()).map(|message| message.said()),
            _ => ArpMessage::read(buffer.inner()).map(|message| message.said()),
        };
        self.packets.remove(id);
        let Some(said) = said else { return };
        if Some(said.target) != self.ports.address(port, Family::of(said.target)) {
            return;
        }
        let mac = match said.mac {
            Some(mac) => self.outside.macs.key(mac),
            // In IPv6, a sender that knows the receiver's MAC address need not include its own.
            None => Some(packet.src_mac),
        };
        let sender = self.ports.with_address(said.sender);
        if let (Some(mac), Some(sender), true) = (mac, sender, said.mac.is_some()) {
            let neighbour = Neighbour::new(sender, Family::of(said.sender));
            self.learn_neighbour(port, neighbour, mac, agenda);
        }
        if let (true, Some(mac)) = (said.is_request, mac) {
            let reply = match (said.sender, said.target) {
                (IpAddr::V6(to), IpAddr::V6(own)) => self.advertise(port, (own, to), mac),
                (IpAddr::V4(to), _) => reply_to_stranger(port, sender, to, mac),
                _ => return, // a message is of one kind
            };
            let id = self.packets.insert(reply);
            self.transmit(port, id, agenda);
        }
    }

    /// Returns the advertisement of `port` in answer to a real program's neighbour solicitation.
    fn advertise(&mut self, port: PortId, (own, to): (Ipv6Addr, Ipv6Addr), mac: PortId) -> Packet {
        let mut message = self.advertisement(port, own, to);
        let mut mac = mac;
        if to.is_unspecified() {
            // A host that checks whether the address is unused is informed that it is in use (RFC
            // 4861, section 7.2.4).
            message.flags &= !NdMessage::SOLICITED;
            message.dst = ALL_NODES;
            let all_nodes = self.outside.macs.key(bytes::multicast_mac(ALL_NODES));
            mac = all_nodes.unwrap_or(PortId::NONE);
        }
        let mut bytes = Vec::with_capacity(NdMessage::BYTES.into());
        message.write(&mut bytes);
        let what = Description {
            used: number_of(bytes.len()),
            content: Content::Nd,
            start: 0,
            header: V6_HEADER_BYTES,
            offload: OffloadedWork::default(),
        };
        let buffer = self.packets.buffers.fill(&bytes, what);
        let dst = self.ports.with_address(to.into()).unwrap_or(PortId::NONE);
        let mut packet = Packet::raw(port, dst, buffer, NdMessage::BYTES);
        (packet.src_mac, packet.dst_mac) = (port, mac);
        packet.flags |= Packet::IPV6;
        packet
    }
}

/// All-nodes multicast address (RFC 4291, section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Minimum payload of an Ethernet frame in bytes; shorter payloads are padded (IEEE 802.3).
const LEAST_ON_WIRE: u16 = 46;

/// Returns true if a packet has MAC addresses whose numbers only this engine knows, or is an ARP
/// message for an address that no engine knows.
pub(super) fn is_known_here_only(packet: &Packet) -> bool {
    let is_arp = matches!(packet.kind, PacketKind::ArpRequest | PacketKind::ArpReply);
    Macs::is_own(packet.src_mac)
        || Macs::is_own(packet.dst_mac)
        || is_arp && packet.dst == PortId::NONE
}
