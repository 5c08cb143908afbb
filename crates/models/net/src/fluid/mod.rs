//! Fluid background traffic: rates instead of packets.
//!
//! A fluid flow is a rate on the links of its path that changes once in a step (a millisecond, or a
//! quarter of the shortest round trip), so that its cost does not depend on its load. Packets and
//! fluid meet in the queue of each link ([`queue`]): for a packet, fluid is work before it and
//! occupied room; for fluid, packets are work in front of which it is displaced or lost. The idea
//! is that of Liu et al., "Fluid models and solutions for large-scale IP networks" (SIGMETRICS
//! 2003), and of the hybrid of PRIME (J. Liu, "Packet-level integration of fluid TCP models in
//! real-time network simulation", WSC 2006).
//!
//! Left out: anything that depends on single packets. Switches learn nothing from fluid, fluid
//! sends no ARP and carries no congestion marks; RED loses a part of it ([`red`]). A change of rate
//! takes effect on the whole path within a step; the round trip is in the senders' feedback.
//!
//! [`source`] and [`window`] compute how much is sent, [`queue`] its effect on a link. The steps
//! that take it along the paths of all flows are in the world ([`crate::run`]).

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

/// Fluid flow of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluidId(pub u32);

/// Sending pattern of a fluid flow.
#[derive(Clone, Debug, PartialEq)]
pub enum FluidPattern {
    /// Constant rate, perfectly smooth: it delays no packet before a link is full.
    Constant {
        /// Bits per second, IP headers included.
        rate_bps: u64,
    },
    /// Constant rate of packets at random instants: they delay others as in an M/D/1 queue.
    Poisson {
        /// Bits per second, IP headers included.
        rate_bps: u64,
    },
    /// Alternately [`FluidPattern::Constant`] and silent, each for an exponential time.
    OnOff {
        /// Bits per second while on.
        rate_bps: u64,
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a silence.
        mean_off: Duration,
    },
    /// Bulk transfer whose window grows with time and shrinks with loss (Misra, Gong and Towsley,
    /// SIGCOMM 2000).
    Tcp {
        /// Congestion control.
        control: Control,
        /// Packets in flight that the receiver allows.
        receive_window: u32,
        /// Minimum retransmission timeout.
        min_rto: Duration,
    },
}

/// Fluid flow from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidConfig {
    /// Sending pattern.
    pub pattern: FluidPattern,
    /// Bytes, from the IP header on, of the packets that it represents: their size in queues that
    /// count packets, and on links that add to each.
    pub packet_bytes: u16,
    /// Start instant.
    pub start: Instant<Virtual>,
    /// Stop instant.
    pub stop: Instant<Virtual>,
}

impl FluidConfig {
    /// Returns a flow of this pattern, from the beginning on, of packets of 1,000 bytes.
    pub fn new(pattern: FluidPattern) -> Self {
        Self {
            pattern,
            packet_bytes: 1_000,
            start: Instant::ZERO,
            stop: Instant::FAR_FUTURE,
        }
    }

    /// Returns a bulk transfer like that of [`crate::TcpConfig::default`] with packets.
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

    /// Returns the reason why this flow is invalid, if it is.
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

/// Results of a fluid flow, as of the end of the current step. All that was sent was delivered, was
/// lost, or is under way.
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
    /// Congestion window in packets; zero without one.
    pub window: f64,
    /// Current round trip; zero without a window.
    pub round_trip: Duration,
    /// Number of losses to which it reacted.
    pub slowed: u64,
}

/// Counters of the fluid at one direction of a link, in bytes on the wire. All that arrived was
/// sent on, was lost, or waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FluidLinkStats {
    /// Bytes that came to the queue.
    pub arrived_bytes: f64,
    /// Bytes that found it full.
    pub lost_bytes: f64,
    /// Bytes that wait in it.
    pub waiting_bytes: f64,
}

/// Fluid flows of a world, and their links.
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    pub(crate) flows: Vec<FluidFlow>,
    /// Paths of all flows, one after another.
    pub(crate) hops: Vec<FlowHop>,
    pub(crate) accounts: Vec<Account>,
    /// Places where flows leave for other engines and come from them.
    pub(crate) cuts: Vec<FluidCut>,
    /// By port: the number of its account plus one, 0 without one.
    pub(crate) account_of: Vec<u32>,
    pub(crate) step: Option<Duration>,
    /// Length of the steps, once they have begun.
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

/// Length of a step if no round trip requires a shorter one.
pub(crate) const STEP: Duration = Duration::from_ms(1);
/// Minimum step that is chosen: below, steps cost more than packets would.
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
    /// No part of the flow is in this engine.
    pub(crate) is_elsewhere: bool,
    pub(crate) sent: f64,
    pub(crate) delivered: f64,
    pub(crate) lost: f64,
}

/// Flow on one link.
#[derive(Clone, Debug)]
pub(crate) struct FlowHop {
    pub(crate) account: u32,
    /// Cut after this link, where the flow goes from one engine to another,
    /// [`NIL`](crate::packet::NIL) if there is none.
    pub(crate) cut: u32,
    /// Packets of the flow that wait at the link.
    pub(crate) waiting: f64,
}

/// Flow at a cut link. The engine before it is informed of the flow's losses and delays beyond, the
/// engine behind it of the arriving amount.
#[derive(Clone, Debug)]
pub(crate) struct FluidCut {
    /// Packets that have arrived and have not been taken further.
    pub(crate) came: f64,
    /// Part that gets through beyond, over all reports since the last step.
    pub(crate) survives: f64,
    /// Waiting time of packets beyond, in ns.
    pub(crate) wait_ns: f64,
}

/// State of a link as reported to the flows, in bytes on the wire. The queue itself is exact; its
/// loss and its waiting fluid are divided among the flows a step later, and any error is corrected
/// in the following step.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) port: PortId,
    pub(crate) overhead: f64,
    /// Probability of loss on the wire.
    pub(crate) wire_loss: f64,
    /// Arrivals from the flows in this step, smooth and random.
    pub(crate) smooth: Inflow,
    pub(crate) poisson: Inflow,
    /// Waiting and lost fluid of all flows here.
    pub(crate) waiting: f64,
    pub(crate) lost: f64,
    /// Part of the arrivals that is lost, and part of the rest that is passed on.
    pub(crate) loss: f64,
    pub(crate) passed: f64,
    /// Waiting time of a packet that arrives now, in ns.
    pub(crate) wait_ns: f64,
}

/// Fluid of a link at the end of a step, in bytes on the wire.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Bytes lost so far.
    pub(crate) lost: f64,
    /// Waiting bytes, as far as they concern the flows.
    pub(crate) waiting: f64,
    /// Waiting time of a packet that arrives now.
    pub(crate) wait_ns: f64,
    pub(crate) up: bool,
}

/// Bytes and packets that arrive in a step.
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

/// Returns the random stream of the flow with this number; links and packet sources have the
/// numbers below.
pub(crate) fn flow_random(seed: u64, index: u32) -> Random {
    Random::new(seed, 2 << 32 | u64::from(index))
}

/// Returns the random stream of the fluid in the queue behind this port.
pub(crate) fn queue_random(seed: u64, port: PortId) -> Random {
    Random::new(seed, 3 << 32 | u64::from(port.0))
}
