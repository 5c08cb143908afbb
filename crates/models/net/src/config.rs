//! What a link is made of, as its owner says it.

use timeloom_time::Duration;

/// Bytes that Ethernet adds to each IP packet on the wire: header 14, check
/// sequence 4, preamble 8, gap 12 (IEEE 802.3 clauses 3 and 4).
pub const ETHERNET_OVERHEAD: u16 = 38;

/// One direction of a cable, or both alike.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits per second on the wire.
    pub rate_bps: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// Bytes that each IP packet takes on the wire beyond its own.
    pub overhead_bytes: u16,
    /// What happens to packets that have to wait.
    pub queue: QueueConfig,
    /// What the wire does to them.
    pub impairment: Impairment,
    /// Bytes of the longest IP packet of a real program that it takes: routers
    /// cut longer ones, or refuse them when they must not be cut. Packets
    /// without payload are as long as their owner says and pass anyway.
    pub mtu: u16,
    /// Cost for shortest paths.
    pub cost: u32,
}

impl LinkConfig {
    /// A clean Ethernet link of this rate and delay, with a drop-tail queue of
    /// 1,000 packets (Linux's default `txqueuelen`).
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

    /// This link with another queue.
    pub fn with_queue(mut self, queue: QueueConfig) -> Self {
        self.queue = queue;
        self
    }

    /// This link for packets of up to this many bytes.
    pub fn with_mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// This link with another impairment.
    pub fn with_impairment(mut self, impairment: Impairment) -> Self {
        self.impairment = impairment;
        self
    }
}

/// What happens to packets that have to wait. The packet in transmission does
/// not count as waiting.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueConfig {
    /// First in, first out; what finds the queue full is dropped.
    DropTail {
        /// Packets that may wait.
        packets: u32,
    },
    /// Random early detection (Floyd and Jacobson 1993), gentle.
    Red(RedConfig),
    /// Controlled delay (RFC 8289).
    CoDel {
        /// Sojourn time to be aimed at; 5 ms in the RFC.
        target: Duration,
        /// Time in which the sojourn must fall below; 100 ms in the RFC.
        interval: Duration,
        /// Packets that may wait.
        packets: u32,
        /// Whether packets that know congestion marks are marked where others
        /// are dropped (RFC 3168).
        ecn: bool,
    },
    /// Eight strict priorities by IP precedence, the highest first.
    Priority {
        /// Packets that may wait in each.
        packets: u32,
    },
}

/// The parameters of random early detection; thresholds in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Below this average nothing is dropped.
    pub min_threshold: f64,
    /// From this average on the probability grows from `max_probability` to 1
    /// at twice the threshold.
    pub max_threshold: f64,
    /// Probability of a drop at `max_threshold`.
    pub max_probability: f64,
    /// Weight of the newest sample in the average.
    pub weight: f64,
    /// Packets that may wait.
    pub packets: u32,
    /// Whether packets that know congestion marks are marked where others are
    /// dropped early (RFC 3168). Above `max_threshold` all are dropped, as its
    /// section 7 asks.
    pub ecn: bool,
}

impl RedConfig {
    /// No average and no chance: all packets that find so many others are marked, or dropped where
    /// their transport knows no marks. The single threshold of DCTCP (RFC 8257, section 3.1).
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

/// What the wire does to packets, beyond delaying them.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Impairment {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet arrives twice.
    pub duplication: f64,
    /// Further delay, uniform from 0 to this.
    pub jitter: Duration,
    /// Whether jitter may let packets overtake one another.
    pub jitter_reorders: bool,
    /// Probability that a packet skips delay and jitter and so overtakes.
    pub reordering: f64,
}

impl Impairment {
    /// Independent loss with this probability and nothing else.
    pub fn loss(probability: f64) -> Self {
        Self {
            loss: probability,
            ..Self::default()
        }
    }

    /// Whether packets may leave the order in which they were transmitted or
    /// the distance they had.
    pub(crate) fn disturbs(&self) -> bool {
        self.jitter > Duration::ZERO || self.reordering > 0.0
    }
}
