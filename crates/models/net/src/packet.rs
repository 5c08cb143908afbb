//! What travels: a header without payload, in one cache line.

use timeloom_time::{Instant, Virtual};

use crate::bytes::{self, IpHeader};
use crate::tables::address::Family;

/// A port of a node, and with it the direction of its cable that leads away
/// from that node. The port at the other end is [`PortId::peer`]. A port that
/// has an address is an interface; its number stands for its MAC address
/// (02:00 and these 32 bits) as well.
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

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A UDP datagram of a [`crate::TrafficConfig`].
    Udp,
    /// A segment of a simulated TCP flow, from the sender.
    TcpData,
    /// A pure acknowledgement, to the sender.
    TcpAck,
    /// Opens a flow (RFC 9293).
    TcpSyn,
    /// Answers a [`Kind::TcpSyn`].
    TcpSynAck,
    /// ICMP echo request (RFC 792).
    EchoRequest,
    /// ICMP echo reply.
    EchoReply,
    /// ARP request (RFC 826): who has `dst`? With [`Packet::IPV6`] a solicitation of neighbour
    /// discovery (RFC 4861).
    ArpRequest,
    /// ARP reply: `src` is at `src_mac`. With [`Packet::IPV6`] an advertisement.
    ArpReply,
    /// A packet, frame or train of segments of a real program. `flow` is the
    /// number of its bytes, `seq` its first segment, `sack_from` the number of
    /// its segments and the bytes of headers that each has, `sack_to` alike
    /// for all packets of a flow.
    Raw,
    /// No packet of the network: what one engine tells another of a fluid flow that crosses from
    /// one to the other. `seq` is the hop after which it does, `sack_from` and `sack_to` are a
    /// number; `tos` says which, and `stamp` is for how long packets wait beyond before `at`.
    Fluid,
}

impl Kind {
    /// All of them, each at the place of its number.
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

/// A simulated packet. Payload is only a length.
///
/// Addresses were resolved where the packet was made: `src` and `dst` name
/// interfaces, as the destination entry that a kernel caches with a packet
/// does, so that no router on the way has to search for them again.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// When it arrives at the end of the link it is on; when it came, while it
    /// waits in a queue that schedules.
    pub at: Instant<Virtual>,
    /// When its sender made it; in an answer, the stamp of what is answered
    /// (the timestamps option of RFC 7323).
    pub stamp: Instant<Virtual>,
    pub(crate) next: u32,
    /// Interface that sent it.
    pub src: PortId,
    /// Interface it is for.
    pub dst: PortId,
    /// Sender on this Ethernet segment.
    pub src_mac: PortId,
    /// Receiver on this Ethernet segment; [`PortId::NONE`] for all.
    pub dst_mac: PortId,
    /// Flow or source it belongs to.
    pub flow: u32,
    /// Segment number; in an acknowledgement, the next one expected.
    pub seq: u32,
    /// First segment of the newest block beyond `seq` (RFC 2018).
    pub sack_from: u32,
    /// Segment after that block; equal to `sack_from` when there is none.
    pub sack_to: u32,
    /// The link by which it leaves for another engine; of a [`Packet::STAMPED`]
    /// one, the number of its departure.
    pub link: PortId,
    /// Bytes from the IP header on (for ARP: of the ARP message).
    pub size: u16,
    /// 802.1Q VLAN id, 0 when untagged.
    pub vlan: u16,
    /// What it is.
    pub kind: Kind,
    /// Hops left.
    pub ttl: u8,
    /// [`Packet::LOST`], [`Packet::STAMPED`], [`Packet::ECE`], [`Packet::CWR`],
    /// [`Packet::IPV6`], and between engines whether the bytes are a frame's.
    pub flags: u8,
    /// IP type of service; the three high bits are the precedence, the two low
    /// ones say what becomes of it in congestion (RFC 3168, section 5).
    pub tos: u8,
}

impl Packet {
    /// Lost on the wire: it takes its time on the link and arrives nowhere.
    pub const LOST: u8 = 1;
    /// Somebody waits to be told when its transmission begins.
    pub(crate) const STAMPED: u8 = 2;

    /// In an acknowledgement: a mark of congestion has arrived.
    pub const ECE: u8 = 4;
    /// In a segment: its sender has slowed down because of that.
    pub const CWR: u8 = 8;
    /// Of a real packet that comes from another engine: its bytes begin with the Ethernet
    /// header.
    pub(crate) const FRAMED: u8 = 16;
    /// Of a real packet, and of what asks for neighbours: it is of IPv6.
    pub const IPV6: u8 = 32;
    /// In [`Packet::tos`]: its transport knows marks of congestion, ECT(0).
    pub const ECN_CAPABLE: u8 = 2;
    /// In [`Packet::tos`]: it has met congestion, CE; and the field's bits.
    pub const CONGESTED: u8 = 3;

    /// Marks that it has met congestion, and says whether its transport knows
    /// such marks; else nothing has changed.
    pub(crate) fn mark(&mut self) -> bool {
        let capable = self.tos & Self::CONGESTED != 0;
        if capable {
            self.tos |= Self::CONGESTED;
        }
        capable
    }

    /// A packet with the usual values: TTL 64, untagged, precedence 0.
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

    /// Takes from the header of a real packet what the model needs, but for whom it is.
    pub(crate) fn describe(&mut self, ip: &IpHeader, bytes: &[u8]) {
        self.ttl = ip.ttl;
        self.tos = ip.tos;
        self.sack_to = bytes::flow_hash(ip, bytes);
        self.flags &= !Self::IPV6;
        if ip.is_v6() {
            self.flags |= Self::IPV6;
        }
    }

    /// By which of an interface's addresses it is sent.
    #[inline]
    pub(crate) fn family(&self) -> Family {
        if self.flags & Self::IPV6 == 0 {
            Family::V4
        } else {
            Family::V6
        }
    }

    /// How many packets it is on a wire: more than one for a train of a real
    /// program, which travels as one as far as that makes no difference.
    #[inline]
    pub(crate) fn segments(&self) -> u32 {
        if self.kind == Kind::Raw {
            self.sack_from & 0xffff
        } else {
            1
        }
    }

    /// Bytes of the largest of its packets, when `payload` is what each segment
    /// of a train carries.
    pub(crate) fn largest(&self, payload: u16) -> u32 {
        if self.segments() > 1 {
            u32::from(self.segment_header()) + u32::from(payload)
        } else {
            u32::from(self.size)
        }
    }

    /// What it takes on a wire that adds `overhead` bytes to each packet.
    #[inline]
    pub(crate) fn wire_bytes(&self, overhead: u32) -> u32 {
        let first = u32::from(self.size) + overhead;
        if self.kind != Kind::Raw {
            return first;
        }
        let header = self.sack_from >> 16;
        first + (self.segments() - 1) * (header + overhead)
    }

    /// A single packet of a real program.
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

    /// Bytes of headers of each segment.
    pub(crate) fn segment_header(&self) -> u16 {
        (self.sack_from >> 16) as u16
    }

    /// What equal-cost paths are chosen by.
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
