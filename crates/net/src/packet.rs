//! What travels: a header without payload, in one cache line.

use timeloom_time::{Instant, Virtual};

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
    /// ARP request (RFC 826): who has `dst`?
    ArpRequest,
    /// ARP reply: `src` is at `src_mac`.
    ArpReply,
    /// An IPv4 packet of a real program; `flow` is the number of its bytes.
    Raw,
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
    /// The link by which it leaves for another engine.
    pub link: PortId,
    /// Bytes from the IP header on (for ARP: of the ARP message).
    pub size: u16,
    /// 802.1Q VLAN id, 0 when untagged.
    pub vlan: u16,
    /// What it is.
    pub kind: Kind,
    /// Hops left.
    pub ttl: u8,
    /// [`Packet::LOST`], or 0.
    pub flags: u8,
    /// IP type of service; the three high bits are the precedence.
    pub tos: u8,
}

impl Packet {
    /// Lost on the wire: it takes its time on the link and arrives nowhere.
    pub const LOST: u8 = 1;

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
}

pub(crate) const NIL: u32 = u32::MAX;

const _: () = assert!(size_of::<Packet>() == 64);
