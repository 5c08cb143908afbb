//! Fluid background traffic: rates instead of packets.
//!
//! A fluid flow is a rate on the links of its path that changes once in a
//! step (a millisecond, or a quarter of the shortest round trip), so that it
//! costs the same whatever it carries. Packets and fluid meet in the queue of
//! each link ([`queue`]): fluid is work that lies before a packet and room
//! that it does not find; packets are work before which fluid gives way or
//! is lost. The idea is that of Liu et al., "Fluid models and solutions for
//! large-scale IP networks" (SIGMETRICS 2003), and of the hybrid of PRIME
//! (J. Liu, "Packet-level integration of fluid TCP models in real-time network
//! simulation", WSC 2006).
//!
//! Not here: anything that looks at single packets. Fluid teaches no switch,
//! asks no ARP, carries no congestion marks; RED loses a part of it ([`red`]).
//! A change of rate is felt on the whole path within a step; the round trip is in the senders' feedback.
//!
//! [`source`] and [`window`] say how much is sent, [`queue`] what a link does with it. The steps
//! that take it along the paths of all flows are the world's ([`crate::run`]).

mod queue;
mod red;
mod source;
mod window;

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

use crate::packet::PortId;
use crate::tcp::Control;

pub(crate) use queue::FluidQueue;
pub(crate) use source::Source;

/// A fluid flow of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluidId(pub u32);

/// How much a fluid flow sends.
#[derive(Clone, Debug, PartialEq)]
pub enum FluidPattern {
    /// A constant rate, perfectly smooth: it makes nobody wait before a link
    /// is full.
    Constant {
        /// Bits per second, IP headers included.
        rate_bps: u64,
    },
    /// A constant rate whose packets would come at random: others wait for
    /// them as in an M/D/1 queue.
    Poisson {
        /// Bits per second, IP headers included.
        rate_bps: u64,
    },
    /// As [`FluidPattern::Constant`] for a while, then silent for a while;
    /// both exponential.
    OnOff {
        /// Bits per second while on.
        rate_bps: u64,
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a silence.
        mean_off: Duration,
    },
    /// A bulk transfer whose window grows with time and shrinks with loss
    /// (Misra, Gong and Towsley, SIGCOMM 2000).
    Tcp {
        /// How the window grows and shrinks.
        control: Control,
        /// Packets in flight that the receiver allows.
        receive_window: u32,
        /// Least retransmission timeout.
        min_rto: Duration,
    },
}

/// A fluid flow from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidConfig {
    /// How much it sends.
    pub pattern: FluidPattern,
    /// Bytes, from the IP header on, of the packets that it stands for: what
    /// they take in queues that count packets, and on links that add to each.
    pub packet_bytes: u16,
    /// When it starts.
    pub start: Instant<Virtual>,
    /// When it stops.
    pub stop: Instant<Virtual>,
}

impl FluidConfig {
    /// A flow of this pattern, from the beginning on, of packets of 1,000
    /// bytes.
    pub fn new(pattern: FluidPattern) -> Self {
        Self {
            pattern,
            packet_bytes: 1_000,
            start: Instant::ZERO,
            stop: Instant::FAR_FUTURE,
        }
    }

    /// A bulk transfer as [`crate::TcpConfig::default`] makes with packets.
    pub fn tcp(control: Control) -> Self {
        Self {
            packet_bytes: 1_500,
            ..Self::new(FluidPattern::Tcp {
                control,
                receive_window: 2_048,
                min_rto: Duration::from_ms(200),
            })
        }
    }

    /// Why this flow cannot be, if so.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let zero = |length: &Duration| *length <= Duration::ZERO;
        if self.packet_bytes == 0 {
            return Some("packets have at least one byte");
        }
        match &self.pattern {
            FluidPattern::Constant { rate_bps: 0 }
            | FluidPattern::Poisson { rate_bps: 0 }
            | FluidPattern::OnOff { rate_bps: 0, .. } => Some("a rate is at least 1 bit/s"),
            FluidPattern::OnOff {
                mean_on, mean_off, ..
            } if zero(mean_on) || zero(mean_off) => {
                Some("bursts and silences are longer than nothing")
            }
            FluidPattern::Tcp {
                receive_window: 0, ..
            } => Some("windows have at least one segment"),
            FluidPattern::Tcp {
                control: Control::Bbr | Control::Dctcp,
                ..
            } => Some("as a fluid there are NewReno and CUBIC only"),
            FluidPattern::Tcp { min_rto, .. } if zero(min_rto) => {
                Some("timers are longer than nothing")
            }
            _ => None,
        }
    }
}

/// What has become of a fluid flow, as of the end of the step that runs. All
/// that was sent was delivered, was lost, or is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FluidStats {
    /// Bytes that left the sender, IP headers included.
    pub sent_bytes: f64,
    /// Bytes that arrived.
    pub delivered_bytes: f64,
    /// Bytes that were lost in queues and on wires.
    pub lost_bytes: f64,
    /// Bytes that wait in queues.
    pub waiting_bytes: f64,
    /// The congestion window in packets; zero without one.
    pub window: f64,
    /// The round trip as of now; zero without a window.
    pub round_trip: Duration,
    /// How often loss made it slow down.
    pub slowed: u64,
}

/// What fluid has done at one direction of a link, in bytes on the wire. All
/// that arrived was sent on, was lost, or waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FluidLinkStats {
    /// Bytes that came to the queue.
    pub arrived_bytes: f64,
    /// Bytes that found it full.
    pub lost_bytes: f64,
    /// Bytes that wait in it.
    pub waiting_bytes: f64,
}

/// All fluid flows of a world, and the links they are on.
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    pub(crate) flows: Vec<FluidFlow>,
    /// The paths of all flows, one after another.
    pub(crate) hops: Vec<FlowHop>,
    pub(crate) accounts: Vec<Account>,
    /// Where flows leave for other engines and come from them.
    pub(crate) cuts: Vec<FluidCut>,
    /// By port: the number of its account plus one, 0 without one.
    pub(crate) account_of: Vec<u32>,
    pub(crate) step: Option<Duration>,
    /// The length of the steps, once they have begun.
    pub(crate) running: Duration,
}

impl Default for Fluid {
    fn default() -> Self {
        Self {
            flows: Vec::new(),
            hops: Vec::new(),
            accounts: Vec::new(),
            cuts: Vec::new(),
            account_of: Vec::new(),
            step: None,
            running: STEP,
        }
    }
}

/// The step where no round trip asks for a shorter one.
pub(crate) const STEP: Duration = Duration::from_ms(1);
/// The shortest that is chosen: below, steps cost more than packets would.
pub(crate) const LEAST_STEP: Duration = Duration::from_us(100);

/// Amounts are in packets.
#[derive(Clone, Debug)]
pub(crate) struct FluidFlow {
    pub(crate) source: Source,
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    pub(crate) first_hop: u32,
    pub(crate) hop_count: u32,
    pub(crate) packet_bytes: u16,
    pub(crate) poisson: bool,
    /// Nothing of it is in this engine.
    pub(crate) is_elsewhere: bool,
    pub(crate) sent: f64,
    pub(crate) delivered: f64,
    pub(crate) lost: f64,
}

/// A flow on one link.
#[derive(Clone, Debug)]
pub(crate) struct FlowHop {
    pub(crate) account: u32,
    /// Where it goes from one engine to another after this link, [`NIL`](crate::packet::NIL) where it does not.
    pub(crate) cut: u32,
    /// Packets of the flow that wait there.
    pub(crate) waiting: f64,
}

/// A flow at a cut link. The engine before it is told what becomes of the flow beyond, the engine
/// behind it what comes.
#[derive(Clone, Debug)]
pub(crate) struct FluidCut {
    /// Packets that have come and been taken no further.
    pub(crate) came: f64,
    /// The part that gets through beyond, of all that was told since the last step.
    pub(crate) survives: f64,
    /// How long packets wait beyond, in ns.
    pub(crate) wait_ns: f64,
}

/// What flows are told about a link, in bytes on the wire. The queue itself
/// is exact; its loss and its waiting fluid are divided among the flows a step
/// later, and all that was once wrong is made good in the step after.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) port: PortId,
    pub(crate) overhead: f64,
    /// Probability of a loss on the wire.
    pub(crate) wire_loss: f64,
    /// What flows bring in this step, smoothly and at random.
    pub(crate) smooth: Inflow,
    pub(crate) poisson: Inflow,
    /// What all flows have waiting and have lost here.
    pub(crate) waiting: f64,
    pub(crate) lost: f64,
    /// The part of what comes that is lost, and of the rest that is passed on.
    pub(crate) loss: f64,
    pub(crate) passed: f64,
    /// How long a packet that came now would wait, in ns.
    pub(crate) wait_ns: f64,
}

/// A link's fluid at the end of a step, in bytes on the wire.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What was lost so far.
    pub(crate) lost: f64,
    /// What waits, as far as flows are concerned.
    pub(crate) waiting: f64,
    /// How long a packet would wait that came now.
    pub(crate) wait_ns: f64,
    pub(crate) up: bool,
}

/// Bytes and packets that come in a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inflow {
    pub(crate) bytes: f64,
    pub(crate) packets: f64,
}

impl Inflow {
    pub(crate) fn add(&mut self, packets: f64, bytes_each: f64) {
        self.packets += packets;
        self.bytes += packets * bytes_each;
    }
}

/// A stream for the flow with this number; links and packet sources have those
/// below.
pub(crate) fn flow_random(seed: u64, index: u32) -> Random {
    Random::new(seed, 2 << 32 | u64::from(index))
}

/// A stream for the fluid in the queue behind this port.
pub(crate) fn queue_random(seed: u64, port: PortId) -> Random {
    Random::new(seed, 3 << 32 | u64::from(port.0))
}
