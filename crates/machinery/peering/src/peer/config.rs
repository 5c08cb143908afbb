//! Configuration of sending, and of the time until a peer counts as away.

use timeloom_time::Duration;

/// Batching of a class of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Longest time for which a packet waits for others. At most half of the time that it has left,
    /// unless that is too short for a timely arrival.
    pub hold: Duration,
    /// Size, in bytes, at which a datagram is sent at once.
    pub bytes: usize,
    /// Allows compression of the payload.
    pub compress: bool,
}

/// Configuration of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// For packets of real programs, pings, and packets with a high precedence.
    pub sensitive: Policy,
    /// For all other packets.
    pub bulk: Policy,
    /// Interval of heartbeats when there is nothing to send.
    pub heartbeat: Duration,
    /// Duration of silence after which the other engine counts as away.
    pub silence: Duration,
    /// Packets whose arrival is further in the future than this are refused: the sender's clock is
    /// wrong, and keeping them would use memory.
    pub horizon: Duration,
    /// Largest difference between the clocks of the two engines. A packet that may have been late
    /// counts as late, by the largest possible amount.
    pub clocks_apart: Duration,
}

impl Default for PeerConfig {
    /// Datagrams that fit an Ethernet frame; 5 µs for sensitive packets, 50 µs for bulk; away after
    /// half a second.
    fn default() -> Self {
        let bulk = Policy {
            hold: Duration::from_us(50),
            bytes: 1_400,
            compress: true,
        };
        Self {
            sensitive: Policy {
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
