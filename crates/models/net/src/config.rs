//! Configuration of a link.

use timeloom_time::Duration;

/// Bytes that Ethernet adds to each IP packet on the wire: header 14, check
/// sequence 4, preamble 8, gap 12 (IEEE 802.3 clauses 3 and 4).
pub const ETHERNET_OVERHEAD: u16 = 38;

/// Configuration of one direction of a cable, or of both alike.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits per second on the wire.
    pub rate_bps: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// Bytes that each IP packet occupies on the wire beyond its own.
    pub overhead_bytes: u16,
    /// Queue of the link.
    pub queue: QueueConfig,
    /// Impairments of the wire.
    pub impairment: Impairment,
    /// Length of the longest IP packet of a real program that it takes, in bytes: routers fragment
    /// longer ones, or refuse those that must not be fragmented. Packets without payload have any
    /// length and pass anyway.
    pub mtu: u16,
    /// Cost for shortest paths.
    pub cost: u32,
}

impl LinkConfig {
    /// Returns a clean Ethernet link of this rate and delay, with a drop-tail queue of 1,000
    /// packets (Linux's default `txqueuelen`).
    pub fn new(rate_bps: u64, delay: Duration) -> Self {
        Self {
            rate_bps,
            delay,
            overhead_bytes: ETHERNET_OVERHEAD,
            queue: QueueConfig::DropTail { packets: 1_000 },
            impairment: Impairment::default(),
            mtu: u16::MAX,
            cost: 1,
        }
    }

    /// Returns this link with another queue.
    pub fn with_queue(mut self, queue: QueueConfig) -> Self {
        self.queue = queue;
        self
    }

    /// Returns this link for packets of up to this many bytes.
    pub fn with_mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// Returns this link with another impairment.
    pub fn with_impairment(mut self, impairment: Impairment) -> Self {
        self.impairment = impairment;
        self
    }
}

/// Queue discipline. The packet in transmission does not count as waiting.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueConfig {
    /// First in, first out; packets that find the queue full are dropped.
    DropTail {
        /// Maximum number of waiting packets.
        packets: u32,
    },
    /// Random early detection (Floyd and Jacobson 1993), gentle.
    Red(RedConfig),
    /// Controlled delay (RFC 8289).
    CoDel {
        /// Target of the sojourn time; 5 ms in the RFC.
        target: Duration,
        /// Time in which the sojourn must fall below the target; 100 ms in the RFC.
        interval: Duration,
        /// Maximum number of waiting packets.
        packets: u32,
        /// Marks packets that support congestion marks instead of dropping them (RFC 3168).
        ecn: bool,
    },
    /// Eight strict priorities by IP precedence, the highest first.
    Priority {
        /// Maximum number of waiting packets, for each priority.
        packets: u32,
    },
}

/// Parameters of random early detection; thresholds in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Average below which nothing is dropped.
    pub min_threshold: f64,
    /// Average from which on the probability grows from `max_probability` to 1 at twice the
    /// threshold.
    pub max_threshold: f64,
    /// Probability of a drop at `max_threshold`.
    pub max_probability: f64,
    /// Weight of the newest sample in the average.
    pub weight: f64,
    /// Maximum number of waiting packets.
    pub packets: u32,
    /// Marks packets that support congestion marks instead of dropping them early (RFC 3168). Above
    /// `max_threshold` all are dropped, as its section 7 requires.
    pub ecn: bool,
}

impl RedConfig {
    /// Returns a configuration without average and randomness: all packets that find this many
    /// others are marked, or dropped if their transport does not support marks. This is the single
    /// threshold of DCTCP (RFC 8257, section 3.1).
    pub fn step(threshold: u32, packets: u32) -> Self {
        Self {
            min_threshold: f64::from(threshold),
            max_threshold: f64::from(threshold),
            max_probability: 1.0,
            weight: 1.0,
            packets,
            ecn: true,
        }
    }
}

/// Impairments of packets on the wire, beyond the delay.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Impairment {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet arrives twice.
    pub duplication: f64,
    /// Maximum of an additional delay, uniform from 0.
    pub jitter: Duration,
    /// Jitter may let packets overtake one another.
    pub jitter_reorders: bool,
    /// Probability that a packet skips delay and jitter and so overtakes.
    pub reordering: f64,
}

impl Impairment {
    /// Returns an impairment of independent loss with this probability and nothing else.
    pub fn loss(probability: f64) -> Self {
        Self {
            loss: probability,
            ..Self::default()
        }
    }

    /// Returns true if packets may leave the order or the distance in which they were transmitted.
    pub(crate) fn disturbs(&self) -> bool {
        self.jitter > Duration::ZERO || self.reordering > 0.0
    }
}
