//! Counters of links, and of a world.

/// Counters of one direction of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets whose transmission has begun, or will certainly begin.
    pub packets: u64,
    /// Bytes of these packets on the wire, including overhead.
    pub bytes: u64,
    /// Packets dropped by the queue.
    pub dropped: u64,
    /// Packets with a congestion mark set by the queue instead of a drop (RFC 3168).
    pub marked: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Sum of the waiting times before transmission, in ns.
    pub waited_ns: u64,
}

/// Counters of a world other than those of single links and flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived at the end of a link.
    pub hops: u64,
    /// Packets dropped because a router or host had no route.
    pub no_route: u64,
    /// Packets dropped because their time to live expired.
    pub ttl_exceeded: u64,
    /// Packets dropped because the next hop did not answer an ARP request or solicitation.
    pub arp_failed: u64,
    /// Frames dropped because a switch's port does not accept their VLAN tag.
    pub bad_vlan: u64,
    /// Packets that arrived at a host and were for another one.
    pub not_for_us: u64,
    /// Invalid IP packets and Ethernet frames of real programs.
    pub malformed: u64,
    /// Packets of real programs that were too long for a link and must not be fragmented.
    pub too_long: u64,
    /// ICMP errors sent to real programs.
    pub icmp_errors: u64,
    /// ICMP errors that were not sent because of the rate limit.
    pub icmp_limited: u64,
    /// Packets that were dropped because a real program did not take them in time.
    pub not_taken: u64,
}
