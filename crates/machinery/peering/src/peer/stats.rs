//! Counters of a peer.

/// Counters of the exchange between two engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerStats {
    /// Packets sent.
    pub packets_sent: u64,
    /// Datagrams sent, including heartbeats.
    pub datagrams_sent: u64,
    /// Bytes of the sent datagrams, without UDP and lower layers.
    pub bytes_sent: u64,
    /// Bytes saved by compression.
    pub bytes_saved: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Datagrams received with a valid seal.
    pub datagrams_received: u64,
    /// Datagrams known to be lost.
    pub lost: u64,
    /// Datagrams that arrived after a later one.
    pub reordered: u64,
    /// Duplicate datagrams, from the network or from a replay.
    pub repeated: u64,
    /// Datagrams with an invalid seal, or of another run.
    pub hostile: u64,
    /// Datagrams for, or from, an earlier generation of one of the two engines.
    pub stale: u64,
    /// Sealed datagrams with invalid content, from another version or another network.
    pub malformed: u64,
    /// Packets sent while the other engine was away.
    pub dropped_away: u64,
    /// Packets sent after the last message of an engine that then vanished; their delivery is
    /// unknown.
    pub unconfirmed: u64,
    /// Packets too large for a datagram.
    pub too_large: u64,
    /// Packets dropped because the ring in shared memory was full.
    pub dropped_full: u64,
    /// Number of times the other engine became present.
    pub joined: u64,
    /// Number of silences longer than allowed.
    pub vanished: u64,
}
