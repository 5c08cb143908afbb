//! Counters of a peer.

/// Counters of the exchange between two engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerStats {
    /// Number of packets sent.
    pub packets_sent: u64,
    /// Number of datagrams sent, including heartbeats.
    pub datagrams_sent: u64,
    /// Number of bytes in the sent datagrams, without the headers of UDP and lower layers.
    pub bytes_sent: u64,
    /// Number of bytes saved by compression.
    pub bytes_saved: u64,
    /// Number of packets received.
    pub packets_received: u64,
    /// Number of datagrams received with a valid seal.
    pub datagrams_received: u64,
    /// Number of datagrams known to be lost.
    pub lost: u64,
    /// Number of datagrams that arrived after one with a higher number.
    pub reordered: u64,
    /// Number of duplicate datagrams, from the network or from a replay.
    pub repeated: u64,
    /// Number of datagrams with an invalid seal, or of another run.
    pub hostile: u64,
    /// Number of datagrams for, or from, an earlier generation of one of the two engines.
    pub stale: u64,
    /// Number of sealed datagrams with invalid content, from another version or another network.
    pub malformed: u64,
    /// Number of packets dropped because the other engine was away.
    pub dropped_away: u64,
    /// Number of packets sent after the last message of an engine that then vanished. They may or
    /// may not have been delivered.
    pub unconfirmed: u64,
    /// Number of packets that were too large for a datagram.
    pub too_large: u64,
    /// Number of packets dropped because the ring in shared memory was full.
    pub dropped_full: u64,
    /// Number of times that the other engine became present.
    pub joined: u64,
    /// Number of times that the other engine became away because of its silence.
    pub vanished: u64,
}
