//! Counters of links and of a world.

/// Counters of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets whose transmission has begun or is certain.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets dropped by the queue.
    pub dropped: u64,
    /// Packets marked as having met congestion (RFC 3168) instead.
    pub marked: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Sum of the times waited before transmission, in ns.
    pub waited_ns: u64,
}

/// Counters of a world, beyond single links and flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived at the end of a link.
    pub hops: u64,
    /// Packets for which a router or host had no route.
    pub no_route: u64,
    /// Packets whose time to live ran out.
    pub ttl_exceeded: u64,
    /// Packets whose next hop never answered an ARP request.
    pub arp_failed: u64,
    /// Frames whose tag a switch's port does not accept.
    pub bad_vlan: u64,
    /// Packets for another host.
    pub not_for_us: u64,
    /// Invalid IP packets and Ethernet frames from real programs.
    pub malformed: u64,
    /// Packets of real programs that are too long for a link and must not be fragmented.
    pub too_long: u64,
    /// ICMP errors sent to real programs.
    pub icmp_errors: u64,
    /// ICMP errors not sent because of the rate limit.
    pub icmp_limited: u64,
    /// Packets for real programs that were not taken out in time.
    pub not_taken: u64,
}
