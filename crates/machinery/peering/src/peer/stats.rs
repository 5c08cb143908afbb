//! What is counted of a peer.

/// What has happened between the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerStats {
    /// Packets sent.
    pub packets_sent: u64,
    /// Datagrams sent, heartbeats included.
    pub datagrams_sent: u64,
    /// Their bytes, without those of UDP and below.
    pub bytes_sent: u64,
    /// Bytes that compressing saved.
    pub bytes_saved: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Datagrams received and believed.
    pub datagrams_received: u64,
    /// Datagrams that never came, as far as is known.
    pub lost: u64,
    /// Datagrams that came after a later one.
    pub reordered: u64,
    /// Datagrams that had come before: a network that doubles, or a replay.
    pub repeated: u64,
    /// Datagrams with a false seal, or that are none of this run.
    pub hostile: u64,
    /// Datagrams for, or from, an earlier life of one of the two.
    pub stale: u64,
    /// Sealed datagrams that make no sense: another version, another network.
    pub malformed: u64,
    /// Packets to be sent while the other one was away.
    pub dropped_away: u64,
    /// Packets that were sent after the last word of one that was then gone: whether they came,
    /// nobody knows.
    pub unconfirmed: u64,
    /// Packets too large for a datagram.
    pub too_large: u64,
    /// Packets that found a ring of shared memory full.
    pub dropped_full: u64,
    /// How often it came, and went without a word.
    pub joined: u64,
    /// Silences longer than allowed.
    pub vanished: u64,
}
