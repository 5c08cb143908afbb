//! Ethernet frames of real programs, for portals.
//!
//! For a host that is open to frames, the external program speaks ARP, IP and all other protocols
//! itself, with the MAC address of the host's interface or another one. Switches forward all its
//! frames; routers and simulated hosts understand ARP, neighbour discovery, IPv4 and IPv6.

use std::net::{Ipv4Addr, Ipv6Addr};

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;
use timeloom_time::{Instant, Virtual};

use crate::bytes::{self, ArpMessage, IpHeader, NdMessage, TCP, UDP, V6_HEADER, be16};
use crate::ids::{Node, NodeRole};
use crate::packet::{NIL, Packet, PacketKind, PortId};
use crate::tables::address::Family;
use crate::tables::buffers::{
    Checksum, Content, Description, ETHERNET, OffloadedWork, TrainProtocol,
};
use crate::tables::outside::{Opened, Outbox};
use crate::tables::residents::Sender;
use crate::world::World;

/// Ethernet frame for a real program, in two pieces.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Instant of arrival: that of the last bit.
    pub at: Instant<Virtual>,
    /// Instant at which the first bit arrived.
    pub first_bit: Instant<Virtual>,
    /// First bytes of the frame, at least its Ethernet header.
    pub head: &'a [u8],
    /// Remaining bytes of the frame.
    pub rest: &'a [u8],
    /// Segmentation and checksum that the receiver must complete.
    pub offload: OffloadedWork,
}

impl World {
    /// Opens a host to Ethernet frames. All frames for the host wait for [`World::take_frame`], and
    /// the model speaks no protocol for it.
    pub fn open_frames(&mut self, node: Node) {
        self.outside.open(node.0, Opened::Frames);
    }

    /// Sends an Ethernet frame from a host: the first `used` bytes of `buffer`. If that is cheaper
    /// than a copy, the buffer is exchanged for another; it must therefore have [`crate::LARGE`]
    /// bytes. Malformed frames are dropped and counted.
    pub fn send_frame<Q: EventQueue>(
        &mut self,
        node: Node,
        buffer: &mut Vec<u8>,
        used: usize,
        offload: OffloadedWork,
        agenda: &mut Agenda<Q>,
    ) {
        self.send_tagged(node, (buffer, used), offload, None, agenda);
    }

    /// Sends an Ethernet frame like [`World::send_frame`]. [`World::take_departure`] returns the
    /// instant at which its first bit leaves, with this `tag`. A train of segments has no such
    /// instant.
    pub fn send_stamped_frame<Q: EventQueue>(
        &mut self,
        node: Node,
        (buffer, used): (&mut Vec<u8>, usize),
        offload: OffloadedWork,
        tag: u64,
        agenda: &mut Agenda<Q>,
    ) {
        self.send_tagged(node, (buffer, used), offload, Some(tag), agenda);
    }

    fn send_tagged<Q: EventQueue>(
        &mut self,
        node: Node,
        (buffer, used): (&mut Vec<u8>, usize),
        offload: OffloadedWork,
        tag: Option<u64>,
        agenda: &mut Agenda<Q>,
    ) {
        self.links.prepare();
        let read = buffer
            .get(..used)
            .and_then(|frame| self.read_frame(frame, offload));
        let (Some((mut packet, what)), Some(port)) = (read, self.port_of(node)) else {
            self.counters.malformed += 1;
            return self.note_unstamped(node, tag);
        };
        packet.flow = self.packets.buffers.swap(buffer, what);
        packet.src = port;
        packet.stamp = agenda.now();
        let is_train = packet.segments() > 1;
        let id = self.packets.insert(packet);
        if let Some(number) = self.kernel_timers.at(node.0)
            && !self.note_sent(number, id, agenda)
        {
            return self.note_unstamped(node, tag);
        }
        match tag {
            Some(tag) if !is_train && !self.is_too_long(port, id) => {
                self.transmit_stamped(port, id, (Sender::Outside(node.0), tag), agenda);
            }
            _ => {
                self.transmit(port, id, agenda);
                self.note_unstamped(node, tag);
            }
        }
    }

    fn note_unstamped(&mut self, node: Node, tag: Option<u64>) {
        if let Some(tag) = tag {
            self.outside.note_departure(node, tag, None);
        }
    }

    /// Returns true if a departure waits for [`World::take_departure`].
    pub fn has_departure(&self) -> bool {
        self.outside.has_departure()
    }

    /// Takes the next departure of a stamped frame: its host, its tag and the
    /// instant of its first bit, or `None` if it was dropped. Returns `None` if no frame has left
    /// since the last call.
    pub fn take_departure(&mut self) -> Option<(Node, u64, Option<Instant<Virtual>>)> {
        self.outside.take_departure()
    }

    pub(crate) fn read_frame(
        &mut self,
        frame: &[u8],
        offload: OffloadedWork,
    ) -> Option<(Packet, Description)> {
        let ethernet: &[u8; ETHERNET as usize] = frame.first_chunk()?;
        let inner = &frame[ethernet.len()..];
        let mut what = Description {
            used: u32::try_from(frame.len()).ok()?,
            content: Content::Other,
            start: ETHERNET,
            header: 0,
            offload: OffloadedWork::default(),
        };
        let size = u16::try_from(inner.len()).ok()?;
        let mut packet = Packet::raw(PortId::NONE, PortId::NONE, 0, size);
        match be16(ethernet, 12) {
            0x0800 | 0x86dd => {
                self.read_ip(inner, offload, &mut packet, &mut what)?;
                let is_v6 = be16(ethernet, 12) == 0x86dd;
                if is_v6 != (packet.family() == Family::V6) {
                    return None;
                }
            }
            0x0806 => {
                ArpMessage::read(inner)?;
                what.content = Content::Arp;
            }
            0x8100 if inner.len() >= 2 => packet.vlan = be16(inner, 0) & 0xfff,
            _ => {}
        }
        // If there are too many MAC addresses, the frame counts as malformed: no switch could store
        // them.
        packet.dst_mac = self.outside.macs.key(bytes::mac(ethernet, 0))?;
        packet.src_mac = self.outside.macs.key(bytes::mac(ethernet, 6))?;
        Some((packet, what))
    }

    fn read_ip(
        &self,
        inner: &[u8],
        offload: OffloadedWork,
        packet: &mut Packet,
        what: &mut Description,
    ) -> Option<()> {
        let ip = IpHeader::read(inner)?;
        // Ethernet pads short packets, so the frame may be longer than the IP packet.
        let inner = &inner[..usize::from(ip.length)];
        what.used = u32::from(ETHERNET) + u32::from(ip.length);
        what.content = Content::Ip;
        what.header = ip.header;
        what.offload = offload;
        if let Some(Checksum { start, offset }) = offload.checksum {
            let end = u32::from(start) + u32::from(offset) + 2;
            if start < ETHERNET + ip.header || end > what.used {
                return None;
            }
        }
        if ip.is_neighbour_discovery(inner) {
            what.content = Content::Nd;
        }
        packet.size = ip.length;
        packet.describe(&ip, inner);
        packet.dst = self.ports.with_address(ip.dst).unwrap_or(PortId::NONE);
        if let Some(train) = offload.train {
            let protocol = match train.protocol {
                TrainProtocol::Tcp => TCP,
                TrainProtocol::Udp => UDP,
            };
            let is_plain = !ip.is_v6() || usize::from(ip.header) == V6_HEADER;
            if ip.protocol != protocol || ip.fragment || !is_plain || train.payload_bytes == 0 {
                return None;
            }
            let after = &inner[usize::from(ip.header)..];
            what.header += bytes::transport_header(protocol, after)?;
            let payload = ip.length - what.header;
            let count = payload.div_ceil(train.payload_bytes).max(1);
            // The checksums of a train are always incomplete. Without an offset, the checksum is at
            // the usual position.
            let offset = if protocol == TCP { 16 } else { 6 };
            what.offload.checksum = Some(Checksum {
                start: ETHERNET + ip.header,
                offset,
            });
            packet.set_segments(0, u32::from(count), what.header);
        }
        Some(())
    }

    /// Takes the next frame that arrived at a host open to frames, and passes it to `take`. Returns
    /// `None` if there is no frame.
    pub fn take_frame<R>(&mut self, take: impl FnOnce(Node, Frame<'_>) -> R) -> Option<R> {
        let (node, id) = self.outside.pop(Outbox::Frames)?;
        let port = self.ports.first_of(node);
        let mut packet = self.packets[id];
        let place = self.ports[port];
        let peer = self.roles[place.peer_node as usize];
        if place.arp == NIL && matches!(peer, NodeRole::Router(_)) && packet.dst_mac != PortId::NONE
        {
            // On a cable between two nodes, routers do not resolve MAC addresses.
            (packet.src_mac, packet.dst_mac) = (port.peer(), port);
        }
        let first_bit = packet.at - self.links[port.peer()].time_of(&packet);
        let taken = self.with_frame(&packet, |frame| {
            take(Node(node), Frame { first_bit, ..frame })
        });
        self.packets.remove(id);
        Some(taken)
    }

    /// Returns the host whose frame [`World::take_frame`] would take next.
    pub fn next_frame(&self) -> Option<Node> {
        let (node, _) = self.outside.first(Outbox::Frames)?;
        Some(Node(node))
    }

    /// Returns true if a frame waits for [`World::take_frame`].
    pub fn has_frame(&self) -> bool {
        self.outside.has(Outbox::Frames)
    }

    /// Watches the link out of `port`. Copies of real programs' packets on it wait for
    /// [`World::take_captured`] when the packets arrive at the end of the link.
    pub fn watch(&mut self, port: PortId) {
        self.outside.watch(port, self.ports.len());
    }

    /// Takes the next packet that was copied from a watched link, with the port of that link.
    /// Returns `None` if there is none.
    pub fn take_captured<R>(&mut self, take: impl FnOnce(PortId, Frame<'_>) -> R) -> Option<R> {
        let (port, id) = self.outside.pop(Outbox::Captured)?;
        let packet = self.packets[id];
        let taken = self.with_frame(&packet, |frame| take(PortId(port), frame));
        self.packets.remove(id);
        Some(taken)
    }

    pub(super) fn with_frame<R>(
        &mut self,
        packet: &Packet,
        take: impl FnOnce(Frame<'_>) -> R,
    ) -> R {
        let mut head = self.outside.take_scratch();
        let macs = [packet.src_mac, packet.dst_mac].map(|key| self.outside.macs.mac(key));
        let (rest, offload) = if packet.kind == PacketKind::Raw {
            let buffer = self.packets.buffers.get(packet.flow);
            buffer.write_head(packet, macs, &mut head)
        } else {
            self.write_question(packet, macs, &mut head);
            (&[][..], OffloadedWork::default())
        };
        let taken = take(Frame {
            at: packet.at,
            first_bit: packet.at,
            head: &head,
            rest,
            offload,
        });
        self.outside.return_scratch(head);
        taken
    }

    /// Writes a request or reply of the model for neighbour resolution as an Ethernet frame.
    fn write_question(&self, packet: &Packet, [src, dst]: [[u8; 6]; 2], head: &mut Vec<u8>) {
        head.clear();
        let is_request = packet.kind == PacketKind::ArpRequest;
        let own_mac = self.outside.macs.mac(packet.src);
        if packet.family() == Family::V6 {
            let own = |port| self.ports.v6(port).map(|(address, _)| address);
            let [own, other] = [packet.src, packet.dst].map(|it| own(it).unwrap_or(NOBODY));
            let message = match is_request {
                true => NdMessage::solicitation(own, own_mac, other),
                false => self.advertisement(packet.src, own, other),
            };
            head.extend(if is_request {
                bytes::multicast_mac(message.dst)
            } else {
                dst
            });
            head.extend(src);
            head.extend([0x86, 0xdd]);
            return message.write(head);
        }
        head.extend(dst);
        head.extend(src);
        head.extend([8, 6]);
        let own = |port| self.ports.v4(port).map(|(address, _)| address);
        // If the model has no such interface, the packet contains the address.
        let target = match packet.dst {
            PortId::NONE => packet.seq.into(),
            port => own(port).unwrap_or(Ipv4Addr::UNSPECIFIED),
        };
        let message = ArpMessage {
            is_request,
            sender_mac: own_mac,
            sender: own(packet.src).unwrap_or(Ipv4Addr::UNSPECIFIED),
            target_mac: if is_request { [0; 6] } else { dst },
            target,
        };
        message.write(head);
    }

    /// Returns the neighbour advertisement of interface `port` with address `own`, in answer to
    /// `to`.
    pub(super) fn advertisement(&self, port: PortId, own: Ipv6Addr, to: Ipv6Addr) -> NdMessage {
        let is_router = matches!(
            self.roles[self.ports[port].node as usize],
            NodeRole::Router(_)
        );
        let router = if is_router { NdMessage::ROUTER } else { 0 };
        NdMessage {
            is_request: false,
            flags: router | NdMessage::SOLICITED | NdMessage::OVERRIDE,
            src: own,
            dst: to,
            target: own,
            mac: Some(self.outside.macs.mac(port)),
        }
    }

    /// Sets the MAC address of a host's interface to that of an existing container or machine.
    pub fn set_mac(&mut self, node: Node, mac: [u8; 6]) {
        if let Some(port) = self.port_of(node) {
            self.outside.macs.set(port, mac);
        }
    }
}

const NOBODY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
