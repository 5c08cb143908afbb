//! What a link has done.

/// What one direction of a link has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets whose transmission was begun or is certain.
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

/// What has happened in a world, beyond single links and flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came to the end of a link.
    pub hops: u64,
    /// Packets for which a router or host had no route.
    pub no_route: u64,
    /// Packets whose time to live ran out.
    pub ttl_exceeded: u64,
    /// Packets whose next hop never answered an ARP request.
    pub arp_failed: u64,
    /// Frames whose tag a switch's port does not take.
    pub bad_vlan: u64,
    /// Packets for somebody else.
    pub not_for_us: u64,
    /// What real programs sent and is no IP packet, or no Ethernet frame.
    pub malformed: u64,
    /// Packets of real programs that a link does not take for their length, and
    /// that must not be cut.
    pub too_long: u64,
    /// ICMP errors sent to real programs.
    pub icmp_errors: u64,
    /// ICMP errors not sent because there had been many.
    pub icmp_limited: u64,
    /// Packets for real programs that nobody took out in time.
    pub not_taken: u64,
}
