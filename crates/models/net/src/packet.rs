//! Simulated packet: header fields without payload, in one cache line.

use timeloom_time::convert::{low_u16, low_u32};
use timeloom_time::{Instant, Virtual};

use crate::bytes::{self, IpHeader};
use crate::tables::address::Family;

/// Number of a node's port, and of the link that leaves the node through it. The port at the other
/// end of the cable is [`PortId::peer`]. A port with an IP address is an interface; its number also
/// stands for its MAC address (02:00 followed by these 32 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// No port; in place of a MAC address, the broadcast address.
    pub const NONE: Self = Self(u32::MAX);

    /// Returns the port at the other end of the cable.
    #[inline]
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Type of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// UDP datagram of a [`crate::TrafficConfig`].
    Udp,
    /// Segment of a simulated TCP flow with payload, from sender to receiver.
    TcpData,
    /// Acknowledgement of a simulated TCP flow without payload, from receiver to sender.
    TcpAck,
    /// First segment of a simulated TCP flow, which opens the connection (RFC 9293).
    TcpSyn,
    /// Answer to a [`PacketKind::TcpSyn`], from receiver to sender.
    TcpSynAck,
    /// ICMP echo request (RFC 792).
    EchoRequest,
    /// ICMP echo reply.
    EchoReply,
    /// ARP request (RFC 826) for the MAC address of `dst`. With [`Packet::IPV6`], it is a neighbour
    /// solicitation (RFC 4861).
    ArpRequest,
    /// ARP reply: `src` has MAC address `src_mac`. With [`Packet::IPV6`], a neighbour
    /// advertisement.
    ArpReply,
    /// Packet or frame of a real program, or a train of TCP segments. `flow` is the number of the
    /// buffer with its bytes and `seq` its first segment. `sack_from` encodes the number of
    /// segments and the length of each segment's headers. `sack_to` is the same number for all
    /// packets of a flow.
    Raw,
    /// Message between engines about a fluid flow that crosses from one to the other; not a packet
    /// of the network. `seq` is the hop after which the flow crosses; `sack_from` and `sack_to` are
    /// a number and `tos` tells its meaning. `stamp` is the waiting time of packets beyond the
    /// crossing, before `at`.
    Fluid,
}

impl PacketKind {
    /// All kinds; each is at the index of its number.
    pub const ALL: [Self; 11] = [
        Self::Udp,
        Self::TcpData,
        Self::TcpAck,
        Self::TcpSyn,
        Self::TcpSynAck,
        Self::EchoRequest,
        Self::EchoReply,
        Self::ArpRequest,
        Self::ArpReply,
        Self::Raw,
        Self::Fluid,
    ];
}

/// Simulated packet. Its payload is only a length.
///
/// Addresses are resolved when a packet is created: `src` and `dst` are interfaces, so that routers
/// on the way need not search for them. (A kernel caches a destination entry with a packet for the
/// same reason.)
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// Arrival at the end of the present link. While the packet waits in a queue that schedules
    /// packets: arrival at the queue.
    pub at: Instant<Virtual>,
    /// Instant of creation. In an answer: the stamp of the answered packet (as the timestamps
    /// option of RFC 7323).
    pub stamp: Instant<Virtual>,
    pub(crate) next: u32,
    /// Sending interface.
    pub src: PortId,
    /// Destination interface.
    pub dst: PortId,
    /// MAC address of the sender on the present Ethernet segment.
    pub src_mac: PortId,
    /// MAC address of the receiver on the present Ethernet segment; [`PortId::NONE`] for broadcast.
    pub dst_mac: PortId,
    /// Number of the packet's flow or source.
    pub flow: u32,
    /// Number of the segment; in an acknowledgement, number of the next expected segment.
    pub seq: u32,
    /// In an acknowledgement: first segment of the newest block beyond `seq` (RFC 2018).
    pub sack_from: u32,
    /// In an acknowledgement: the segment after that block; equal to `sack_from` if there is no
    /// block.
    pub sack_to: u32,
    /// Link by which the packet leaves for another engine. With [`Packet::STAMPED`]: number of the
    /// departure to report.
    pub link: PortId,
    /// Length in bytes from the IP header on; for ARP, of the ARP message.
    pub size: u16,
    /// VLAN identifier of the 802.1Q tag; 0 if untagged.
    pub vlan: u16,
    /// Type of the packet.
    pub kind: PacketKind,
    /// Remaining number of hops.
    pub ttl: u8,
    /// Flags [`Packet::LOST`], [`Packet::STAMPED`], [`Packet::ECE`], [`Packet::CWR`] and
    /// [`Packet::IPV6`]; between engines also the flag that the bytes begin with an Ethernet
    /// header.
    pub flags: u8,
    /// IP type of service. The three high bits are the precedence, the two low bits the ECN field
    /// (RFC 3168, section 5).
    pub tos: u8,
}

impl Packet {
    /// The packet is lost on the wire: it occupies the link, but does not arrive.
    pub const LOST: u8 = 1;
    /// The beginning of the packet's transmission must be reported to its sender.
    pub(crate) const STAMPED: u8 = 2;

    /// In an acknowledgement: a packet with a congestion mark has arrived (ECN-Echo of RFC 3168).
    pub const ECE: u8 = 4;
    /// In a segment: the sender has reduced its window (Congestion Window Reduced of RFC 3168).
    pub const CWR: u8 = 8;
    /// In a real packet from another engine: its bytes begin with the Ethernet header.
    pub(crate) const FRAMED: u8 = 16;
    /// Of a real packet that comes from another engine: its sender's kernel has left the checksum
    /// of the transport to the network card ([`crate::Checksum`]).
    pub(crate) const OPEN: u8 = 64;
    /// Of a real packet that comes from another engine: it carries the instant at which the segment
    /// with the echoed time stamp was sent, in place of its segments.
    pub(crate) const ECHO: u8 = 128;
    /// In a real packet or a message of neighbour resolution: the packet is IPv6.
    pub const IPV6: u8 = 32;
    /// Value of the ECN field in [`Packet::tos`]: the transport supports congestion marks, ECT(0).
    pub const ECN_CAPABLE: u8 = 2;
    /// Value of the ECN field in [`Packet::tos`]: the packet has met congestion, CE. Also the
    /// field's mask.
    pub const CONGESTED: u8 = 3;

    /// Sets the congestion mark. Returns false, without a change, if the transport does not support
    /// marks.
    pub(crate) fn mark(&mut self) -> bool {
        let capable = self.tos & Self::CONGESTED != 0;
        if capable {
            self.tos |= Self::CONGESTED;
        }
        capable
    }

    /// Returns a packet with default values: TTL 64, untagged, precedence 0.
    #[inline]
    pub fn new(kind: PacketKind, src: PortId, dst: PortId, flow: u32, size: u16) -> Self {
        Self {
            at: Instant::ZERO,
            stamp: Instant::ZERO,
            next: NIL,
            src,
            dst,
            src_mac: src,
            dst_mac: dst,
            flow,
            seq: 0,
            sack_from: 0,
            sack_to: 0,
            link: PortId::NONE,
            size,
            vlan: 0,
            kind,
            ttl: 64,
            flags: 0,
            tos: 0,
        }
    }

    /// Copies the fields that the model needs, except the destination, from the header of a real
    /// packet.
    pub(crate) fn describe(&mut self, ip: &IpHeader, bytes: &[u8]) {
        self.ttl = ip.ttl;
        self.tos = ip.tos;
        self.sack_to = bytes::flow_hash(ip, bytes);
        self.flags &= !Self::IPV6;
        if ip.is_v6() {
            self.flags |= Self::IPV6;
        }
    }

    /// Returns the address family of the packet.
    #[inline]
    pub(crate) fn family(&self) -> Family {
        if self.flags & Self::IPV6 == 0 {
            Family::V4
        } else {
            Family::V6
        }
    }

    /// Returns the number of packets that the packet stands for on a wire. A train of a real
    /// program's segments is more than one; it travels as a single packet where that makes no
    /// difference.
    #[inline]
    pub(crate) fn segments(&self) -> u32 {
        if self.kind == PacketKind::Raw {
            self.sack_from & 0xffff
        } else {
            1
        }
    }

    /// Returns the length of the longest packet on the wire, if each segment of a train has
    /// `payload` bytes.
    pub(crate) fn largest(&self, payload: u16) -> u32 {
        if self.segments() > 1 {
            u32::from(self.segment_header()) + u32::from(payload)
        } else {
            u32::from(self.size)
        }
    }

    /// Returns the bytes on a wire that adds `overhead` bytes to each packet.
    #[inline]
    pub(crate) fn wire_bytes(&self, overhead: u32) -> u32 {
        let first = u32::from(self.size) + overhead;
        if self.kind != PacketKind::Raw {
            return first;
        }
        let header = self.sack_from >> 16;
        first + (self.segments() - 1) * (header + overhead)
    }

    /// Returns a single packet of a real program, with its bytes in buffer number `buffer`.
    pub(crate) fn raw(src: PortId, dst: PortId, buffer: u32, size: u16) -> Self {
        let mut packet = Self::new(PacketKind::Raw, src, dst, buffer, size);
        packet.sack_from = 1;
        packet
    }

    /// Makes the packet a train of `count` segments, from segment `first` of its buffer on.
    pub(crate) fn set_segments(&mut self, first: u32, count: u32, header: u16) {
        self.seq = first;
        self.sack_from = count | u32::from(header) << 16;
    }

    /// Stores an echoed instant in the packet, for another engine.
    pub(crate) fn put_echo(&mut self, echo: Instant<Virtual>) {
        let ns = echo.as_ns().cast_unsigned();
        self.flags |= Self::ECHO;
        (self.seq, self.sack_from) = (low_u32(ns >> 32), low_u32(ns));
    }

    /// Removes and returns the echoed instant that the packet carries, if any.
    pub(crate) fn take_echo(&mut self) -> Option<Instant<Virtual>> {
        let carries = self.flags & Self::ECHO != 0;
        self.flags &= !Self::ECHO;
        let ns = u64::from(self.seq) << 32 | u64::from(self.sack_from);
        carries.then(|| Instant::from_ns(ns.cast_signed()))
    }

    /// Returns the length of the headers of each segment, in bytes.
    pub(crate) fn segment_header(&self) -> u16 {
        low_u16((self.sack_from >> 16).into())
    }

    /// Returns the value by which routers select one of several equal-cost paths.
    #[inline]
    pub(crate) fn path_key(&self) -> u32 {
        if self.kind == PacketKind::Raw {
            self.sack_to
        } else {
            self.flow
        }
    }
}

pub(crate) const NIL: u32 = u32::MAX;

const _: () = assert!(size_of::<Packet>() == 64);
