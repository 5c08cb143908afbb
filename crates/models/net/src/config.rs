//! Configuration of a link.

use timeloom_time::Duration;

/// Bytes that Ethernet adds to each IP packet on the wire: header 14, check sequence 4, preamble 8,
/// inter-packet gap 12 (IEEE 802.3, clauses 3 and 4).
pub const ETHERNET_OVERHEAD: u16 = 38;

/// Configuration of a link: one direction of a cable, or both directions if they are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits per second on the wire, including the overhead of each packet.
    pub rate_bps: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// Bytes that each IP packet occupies on the wire in addition to its own.
    pub overhead_bytes: u16,
    /// Queue in front of the link's transmitter.
    pub queue: QueueConfig,
    /// Loss, duplication, jitter and reordering on the wire.
    pub impairment: Impairment,
    /// Maximum length of an IP packet of a real program on this link, in bytes. Routers fragment
    /// longer packets, or refuse those that must not be fragmented. Simulated packets without
    /// payload bytes may have any length.
    pub mtu: u16,
    /// Cost of the link in the computation of shortest paths.
    pub cost: u32,
}

impl LinkConfig {
    /// Returns an Ethernet link with this rate and delay, without impairments, and with a drop-tail
    /// queue of 1,000 packets (Linux's default `txqueuelen`).
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

    /// Returns this link with `queue` instead of its queue.
    pub fn with_queue(mut self, queue: QueueConfig) -> Self {
        self.queue = queue;
        self
    }

    /// Returns this link with an MTU of `mtu` bytes.
    pub fn with_mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// Returns this link with `impairment` instead of its impairments.
    pub fn with_impairment(mut self, impairment: Impairment) -> Self {
        self.impairment = impairment;
        self
    }
}

/// Change of a link while the network runs. Properties that are `None` stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// Bits per second on the wire.
    pub rate_bps: Option<u64>,
    /// Propagation delay.
    pub delay: Option<Duration>,
    /// Probability that a packet is lost.
    pub loss: Option<f64>,
    /// Greatest additional delay.
    pub jitter: Option<Duration>,
    /// True if the link is up.
    pub up: Option<bool>,
}

/// Queueing discipline. Limits on waiting packets do not count the packet in transmission.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueConfig {
    /// First in, first out; a packet that arrives at a full queue is dropped.
    DropTail {
        /// Maximum number of waiting packets.
        packets: u32,
    },
    /// Random early detection (Floyd and Jacobson 1993), in its gentle form.
    Red(RedConfig),
    /// Controlled delay (RFC 8289).
    CoDel {
        /// Target of the time that packets wait in the queue; 5 ms in the RFC.
        target: Duration,
        /// Time within which the waiting time must fall below the target; 100 ms in the RFC.
        interval: Duration,
        /// Maximum number of waiting packets.
        packets: u32,
        /// True if packets whose transport supports ECN are marked instead of dropped (RFC 3168).
        ecn: bool,
    },
    /// Eight strict priorities by IP precedence; the highest precedence is served first.
    Priority {
        /// Maximum number of waiting packets of each priority.
        packets: u32,
    },
}

/// Parameters of random early detection. Thresholds are in packets and are compared with the
/// average queue length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Average queue length below which no packet is dropped.
    pub min_threshold: f64,
    /// Average queue length from which on the drop probability grows from `max_probability` to 1;
    /// it reaches 1 at twice this threshold.
    pub max_threshold: f64,
    /// Drop probability at `max_threshold`.
    pub max_probability: f64,
    /// Weight of the newest queue length in the average, 0 to 1.
    pub weight: f64,
    /// Maximum number of waiting packets.
    pub packets: u32,
    /// True if packets whose transport supports ECN are marked instead of dropped early (RFC 3168).
    /// Above `max_threshold` all packets are dropped, as section 7 of the RFC requires.
    pub ecn: bool,
}

impl RedConfig {
    /// Returns a configuration without averaging and randomness: a packet that finds `threshold`
    /// others in the queue is marked, or dropped if its transport does not support ECN. This is the
    /// single threshold of DCTCP (RFC 8257, section 3.1).
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

/// Impairments of packets on the wire, in addition to the propagation delay.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Impairment {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet arrives twice.
    pub duplication: f64,
    /// Greatest additional delay; it is uniformly distributed from 0.
    pub jitter: Duration,
    /// True if jitter may cause packets to overtake each other.
    pub jitter_reorders: bool,
    /// Probability that a packet skips delay and jitter, and so overtakes others.
    pub reordering: f64,
}

impl Impairment {
    /// Returns an impairment that loses each packet independently with this probability.
    pub fn loss(probability: f64) -> Self {
        Self {
            loss: probability,
            ..Self::default()
        }
    }

    /// Returns true if packets may arrive in another order or spacing than they were transmitted.
    pub(crate) fn disturbs(&self) -> bool {
        self.jitter > Duration::ZERO || self.reordering > 0.0
    }
}
