//! How a peer sends, and when it counts as away.

use timeloom_time::Duration;

/// How eagerly packets of a class are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a packet may wait for others. Not longer than half of the time
    /// that it has left, unless that is too short to get anywhere in time.
    pub hold: Duration,
    /// A datagram of this size goes at once.
    pub bytes: usize,
    /// Whether payload may be compressed.
    pub compress: bool,
}

/// What a peer is told at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// For packets of real programs, pings, and what has a high precedence.
    pub sensitive: Policy,
    /// For all else.
    pub bulk: Policy,
    /// How often we speak when there is nothing to say.
    pub heartbeat: Duration,
    /// After how long a silence the other one counts as away.
    pub silence: Duration,
    /// Packets that arrive further ahead than this are refused: the sender's
    /// clock is wrong, and keeping them would cost memory.
    pub horizon: Duration,
    /// How far apart the clocks of the two engines may be. A packet counts as late that may have
    /// come late, by as much as it may.
    pub clocks_apart: Duration,
}

impl Default for PeerConfig {
    /// Datagrams that fit an Ethernet frame; 5 µs for sensitive packets, 50 µs
    /// for bulk; away after half a second.
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
