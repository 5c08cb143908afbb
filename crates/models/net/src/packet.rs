//! Simulated packet: a header without payload, in one cache line.

use timeloom_time::{Instant, Virtual};

use crate::bytes::{self, IpHeader};
use crate::tables::address::Family;

/// Port of a node, and the direction of its cable that leads away from that node. The port at the
/// other end is [`PortId::peer`]. A port that has an address is an interface; its number also
/// represents its MAC address (02:00 and these 32 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// No port; as a MAC address, all stations.
    pub const NONE: Self = Self(u32::MAX);

    /// The port at the other end of the cable.
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
pub enum Kind {
    /// UDP datagram of a [`crate::TrafficConfig`].
    Udp,
    /// Segment of a simulated TCP flow, from the sender.
    TcpData,
    /// Pure acknowledgement, to the sender.
    TcpAck,
    /// Opening of a flow (RFC 9293).
    TcpSyn,
    /// Answer to a [`Kind::TcpSyn`].
    TcpSynAck,
    /// ICMP echo request (RFC 792).
    EchoRequest,
    /// ICMP echo reply.
    EchoReply,
    /// ARP request (RFC 826) for the MAC address of `dst`. With [`Packet::IPV6`] a solicitation of
    /// neighbour discovery (RFC 4861).
    ArpRequest,
    /// ARP reply: `src` is at `src_mac`. With [`Packet::IPV6`] an advertisement.
    ArpReply,
    /// Packet, frame or train of segments of a real program. `flow` is the number of its bytes,
    /// `seq` its first segment, `sack_from` the number of its segments and the bytes of headers
    /// that each has, `sack_to` the same for all packets of a flow.
    Raw,
    /// No packet of the network: a message between engines about a fluid flow that crosses from one
    /// to the other. `seq` is the hop after which it does, `sack_from` and `sack_to` are a number;
    /// `tos` says which, and `stamp` is the waiting time of packets beyond, before `at`.
    Fluid,
}

impl Kind {
    /// All kinds, each at the place of its number.
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

/// Simulated packet. Payload is only a length.
///
/// Addresses were resolved where the packet was created: `src` and `dst` name interfaces, as the
/// destination entry that a kernel caches with a packet does, so that no router on the way has to
/// search for them again.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// Arrival at the end of the link it is on; arrival in the queue while it waits in one that
    /// schedules.
    pub at: Instant<Virtual>,
    /// Instant of its creation; in an answer, the stamp of the answered packet (the timestamps
    /// option of RFC 7323).
    pub stamp: Instant<Virtual>,
    pub(crate) next: u32,
    /// Sending interface.
    pub src: PortId,
    /// Destination interface.
    pub dst: PortId,
    /// Sender on this Ethernet segment.
    pub src_mac: PortId,
    /// Receiver on this Ethernet segment; [`PortId::NONE`] for all.
    pub dst_mac: PortId,
    /// Flow or source of the packet.
    pub flow: u32,
    /// Segment number; in an acknowledgement, the next one expected.
    pub seq: u32,
    /// First segment of the newest block beyond `seq` (RFC 2018).
    pub sack_from: u32,
    /// Segment after that block; equal to `sack_from` when there is none.
    pub sack_to: u32,
    /// Link by which it leaves for another engine; of a [`Packet::STAMPED`] one, the number of its
    /// departure.
    pub link: PortId,
    /// Bytes from the IP header on (for ARP: of the ARP message).
    pub size: u16,
    /// 802.1Q VLAN id, 0 when untagged.
    pub vlan: u16,
    /// Type of the packet.
    pub kind: Kind,
    /// Hops left.
    pub ttl: u8,
    /// [`Packet::LOST`], [`Packet::STAMPED`], [`Packet::ECE`], [`Packet::CWR`], [`Packet::IPV6`],
    /// and between engines flags about the bytes and about what else it carries.
    pub flags: u8,
    /// IP type of service; the three high bits are the precedence, the two low ones the congestion
    /// field (RFC 3168, section 5).
    pub tos: u8,
}

impl Packet {
    /// Lost on the wire: it occupies the link and does not arrive.
    pub const LOST: u8 = 1;
    /// The start of its transmission must be reported.
    pub(crate) const STAMPED: u8 = 2;

    /// In an acknowledgement: a congestion mark has arrived.
    pub const ECE: u8 = 4;
    /// In a segment: its sender has slowed down because of that.
    pub const CWR: u8 = 8;
    /// Of a real packet that comes from another engine: its bytes begin with the Ethernet header.
    pub(crate) const FRAMED: u8 = 16;
    /// Of a real packet that comes from another engine: its sender's kernel has left the checksum of
    /// the transport to the network card ([`crate::Checksum`]).
    pub(crate) const OPEN: u8 = 64;
    /// Of a real packet that comes from another engine: it carries the instant at which the segment
    /// was sent whose time stamp it echoes, in the places of its segments.
    pub(crate) const ECHO: u8 = 128;
    /// Of a real packet, and of neighbour resolution: it is of IPv6.
    pub const IPV6: u8 = 32;
    /// In [`Packet::tos`]: its transport supports congestion marks, ECT(0).
    pub const ECN_CAPABLE: u8 = 2;
    /// In [`Packet::tos`]: it has met congestion, CE; and the field's bits.
    pub const CONGESTED: u8 = 3;

    /// Marks the packet as having met congestion; returns false, with nothing changed, if its
    /// transport does not support marks.
    pub(crate) fn mark(&mut self) -> bool {
        let capable = self.tos & Self::CONGESTED != 0;
        if capable {
            self.tos |= Self::CONGESTED;
        }
        capable
    }

    /// Returns a packet with the usual values: TTL 64, untagged, precedence 0.
    #[inline]
    pub fn new(kind: Kind, src: PortId, dst: PortId, flow: u32, size: u16) -> Self {
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

    /// Copies the fields that the model needs from the header of a real packet, except the
    /// destination.
    pub(crate) fn describe(&mut self, ip: &IpHeader, bytes: &[u8]) {
        self.ttl = ip.ttl;
        self.tos = ip.tos;
        self.sack_to = bytes::flow_hash(ip, bytes);
        self.flags &= !Self::IPV6;
        if ip.is_v6() {
            self.flags |= Self::IPV6;
        }
    }

    /// Returns the family of the interface address from which it is sent.
    #[inline]
    pub(crate) fn family(&self) -> Family {
        if self.flags & Self::IPV6 == 0 {
            Family::V4
        } else {
            Family::V6
        }
    }

    /// Returns the number of packets on a wire: more than one for a train of a real program, which
    /// travels as one as far as that makes no difference.
    #[inline]
    pub(crate) fn segments(&self) -> u32 {
        if self.kind == Kind::Raw {
            self.sack_from & 0xffff
        } else {
            1
        }
    }

    /// Returns the size of the largest of its packets, if each segment of a train carries `payload`
    /// bytes.
    pub(crate) fn largest(&self, payload: u16) -> u32 {
        if self.segments() > 1 {
            u32::from(self.segment_header()) + u32::from(payload)
        } else {
            u32::from(self.size)
        }
    }

    /// Returns its size on a wire that adds `overhead` bytes to each packet.
    #[inline]
    pub(crate) fn wire_bytes(&self, overhead: u32) -> u32 {
        let first = u32::from(self.size) + overhead;
        if self.kind != Kind::Raw {
            return first;
        }
        let header = self.sack_from >> 16;
        first + (self.segments() - 1) * (header + overhead)
    }

    /// Returns a single packet of a real program.
    pub(crate) fn raw(src: PortId, dst: PortId, buffer: u32, size: u16) -> Self {
        let mut packet = Self::new(Kind::Raw, src, dst, buffer, size);
        packet.sack_from = 1;
        packet
    }

    /// Makes it `count` segments from `first` on.
    pub(crate) fn set_segments(&mut self, first: u32, count: u32, header: u16) {
        self.seq = first;
        self.sack_from = count | u32::from(header) << 16;
    }

    /// Makes it carry an echoed instant to another engine.
    pub(crate) fn put_echo(&mut self, echo: Instant<Virtual>) {
        let ns = echo.as_ns().cast_unsigned();
        self.flags |= Self::ECHO;
        (self.seq, self.sack_from) = ((ns >> 32) as u32, ns as u32);
    }

    /// Takes the echoed instant that it carries, if any.
    pub(crate) fn take_echo(&mut self) -> Option<Instant<Virtual>> {
        let carries = self.flags & Self::ECHO != 0;
        self.flags &= !Self::ECHO;
        let ns = u64::from(self.seq) << 32 | u64::from(self.sack_from);
        carries.then(|| Instant::from_ns(ns.cast_signed()))
    }

    /// Returns the bytes of headers of each segment.
    pub(crate) fn segment_header(&self) -> u16 {
        (self.sack_from >> 16) as u16
    }

    /// Returns the key that selects one of several equal-cost paths.
    #[inline]
    pub(crate) fn path_key(&self) -> u32 {
        if self.kind == Kind::Raw {
            self.sack_to
        } else {
            self.flow
        }
    }
}

pub(crate) const NIL: u32 = u32::MAX;

const _: () = assert!(size_of::<Packet>() == 64);
