//! Configuration of a peer: batching of packets, and the time after which the peer counts as away.

use timeloom_time::Duration;

/// Batching of a class of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchingPolicy {
    /// Longest time for which a packet waits for others. A packet also waits for at most half of
    /// the wall time that it has left until its arrival, or 10 µs if that is more. A packet with
    /// less time left is late in any case.
    pub hold: Duration,
    /// Size in bytes at which a datagram is sent at once.
    pub bytes: usize,
    /// True if the payload may be compressed.
    pub compress: bool,
}

/// Configuration of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// Batching of packets of real programs, pings, and packets with a high precedence.
    pub sensitive: BatchingPolicy,
    /// Batching of all other packets.
    pub bulk: BatchingPolicy,
    /// Interval between heartbeats when there is nothing else to send.
    pub heartbeat: Duration,
    /// Duration of silence after which the other engine counts as away.
    pub silence: Duration,
    /// Time in the future beyond which packets are refused. If a packet arrives later than that,
    /// the sender's clock is wrong, and keeping the packet would use memory.
    pub horizon: Duration,
    /// Maximum difference between the clocks of the two engines. A packet that may have been late
    /// because of it counts as late, by the largest possible amount.
    pub clocks_apart: Duration,
}

impl Default for PeerConfig {
    /// Returns datagrams that fit an Ethernet frame, a batching time of 5 µs for sensitive packets
    /// and 50 µs for bulk, and half a second until a silent engine counts as away.
    fn default() -> Self {
        let bulk = BatchingPolicy {
            hold: Duration::from_us(50),
            bytes: 1_400,
            compress: true,
        };
        Self {
            sensitive: BatchingPolicy {
                hold: Duration::from_us(5),
                ..bulk
            },
            bulk,
            heartbeat: Duration::from_ms(100),
            silence: Duration::from_ms(500),
            horizon: Duration::from_s(2),
            clocks_apart: Duration::ZERO,
        }
    }
}
