//! Fluid background traffic: rates instead of packets.
//!
//! A fluid flow is a rate on each link of its path. The rate changes once per step (a millisecond,
//! or a quarter of the shortest round trip), so the cost of a flow does not depend on its load.
//! Packets and fluid meet in the queue of each link ([`queue`]). For a packet, fluid is work in
//! front of it, and occupies room. For fluid, packets are work too, and if there is no room,
//! packets displace it or it is lost. The idea is that of Liu et al., "Fluid models and solutions
//! for large-scale IP networks" (SIGMETRICS 2003), and of the hybrid of PRIME (J. Liu,
//! "Packet-level integration of fluid TCP models in real-time network simulation", WSC 2006).
//!
//! Effects of single packets are not modelled. Switches learn no addresses from fluid, and fluid
//! sends no ARP and has no congestion marks; RED drops a part of it ([`red`]). A change of rate
//! takes effect on the whole path within a step; senders get their feedback after a round trip.
//!
//! [`source`] and [`window`] compute how much a flow sends, and [`queue`] its effect on a link. The
//! world ([`crate::run`]) carries the fluid of all flows along their paths in each step.

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

/// Number of a fluid flow in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluidId(pub u32);

/// Pattern by which a fluid flow sends.
#[derive(Clone, Debug, PartialEq)]
pub enum FluidPattern {
    /// A constant, perfectly smooth rate, which delays no packet until a link is full.
    Constant {
        /// Bits per second, IP headers included.
        rate_bps: u64,
    },
    /// Packets at random instants with a constant mean rate; they delay other packets as in an
    /// M/D/1 queue.
    Poisson {
        /// Bits per second, IP headers included.
        rate_bps: u64,
    },
    /// Alternates between [`FluidPattern::Constant`] and silence; each period has an exponential
    /// length.
    OnOff {
        /// Bits per second during a burst, IP headers included.
        rate_bps: u64,
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a silence.
        mean_off: Duration,
    },
    /// A bulk transfer with a window that grows with time and shrinks with losses (Misra, Gong and
    /// Towsley, SIGCOMM 2000).
    Tcp {
        /// Congestion control.
        control: Control,
        /// Maximum number of packets in flight, as the receiver allows.
        receive_window: u32,
        /// Minimum retransmission timeout.
        min_rto: Duration,
    },
}

/// Configuration of a fluid flow from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidConfig {
    /// Sending pattern.
    pub pattern: FluidPattern,
    /// Length of the packets that the flow represents, in bytes from the IP header on. Queues that
    /// count packets and links with an overhead per packet need it.
    pub packet_bytes: u16,
    /// Virtual instant at which the flow starts.
    pub start: Instant<Virtual>,
    /// Virtual instant at which the flow stops.
    pub stop: Instant<Virtual>,
}

impl FluidConfig {
    /// Returns a flow with this pattern and packets of 1,000 bytes, which starts at zero and never
    /// stops.
    pub fn new(pattern: FluidPattern) -> Self {
        Self {
            pattern,
            packet_bytes: 1_000,
            start: Instant::ZERO,
            stop: Instant::FAR_FUTURE,
        }
    }

    /// Returns a bulk transfer with the parameters of [`crate::TcpConfig::default`].
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

    /// Returns the reason for which this flow is invalid; `None` if it is valid.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let zero = |length: &Duration| *length <= Duration::ZERO;
        if self.packet_bytes == 0 {
            return Some("a packet must have at least one byte");
        }
        match &self.pattern {
            FluidPattern::Constant { rate_bps: 0 }
            | FluidPattern::Poisson { rate_bps: 0 }
            | FluidPattern::OnOff { rate_bps: 0, .. } => Some("a rate must be at least 1 bit/s"),
            FluidPattern::OnOff {
                mean_on, mean_off, ..
            } if zero(mean_on) || zero(mean_off) => {
                Some("the mean durations of bursts and silences must be positive")
            }
            FluidPattern::Tcp {
                receive_window: 0, ..
            } => Some("a window must have at least one segment"),
            FluidPattern::Tcp {
                control: Control::Bbr | Control::Dctcp,
                ..
            } => Some("a fluid flow must use NewReno or CUBIC"),
            FluidPattern::Tcp { min_rto, .. } if zero(min_rto) => Some("timers must be positive"),
            _ => None,
        }
    }
}

/// Results of a fluid flow at the end of the present step. All sent bytes were delivered, were
/// lost, or are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FluidStats {
    /// Bytes that the sender has sent, IP headers included.
    pub sent_bytes: f64,
    /// Bytes that have arrived at the receiver.
    pub delivered_bytes: f64,
    /// Bytes that were lost in queues and on wires.
    pub lost_bytes: f64,
    /// Bytes that wait in queues now.
    pub waiting_bytes: f64,
    /// Congestion window in packets; zero for flows without a window.
    pub window: f64,
    /// Present round-trip time; zero for flows without a window.
    pub round_trip: Duration,
    /// Number of losses after which the flow has reduced its window.
    pub slowed: u64,
}

/// Counters of the fluid on one direction of a cable, in bytes on the wire. All bytes that arrived
/// at the queue were sent on, were lost, or wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FluidLinkStats {
    /// Bytes that arrived at the queue.
    pub arrived_bytes: f64,
    /// Bytes that were lost because the queue was full.
    pub lost_bytes: f64,
    /// Bytes that wait in the queue.
    pub waiting_bytes: f64,
}

/// State of all fluid flows of a world, and of their links.
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    pub(crate) flows: Vec<FluidFlow>,
    /// Hops of all flows; the hops of one flow are consecutive.
    pub(crate) hops: Vec<FlowHop>,
    pub(crate) accounts: Vec<Account>,
    /// Places where flows cross from one engine to another.
    pub(crate) cuts: Vec<FluidCut>,
    /// By port: index of the link's account plus one; 0 for links without fluid.
    pub(crate) account_of: Vec<u32>,
    pub(crate) step: Option<Duration>,
    /// Length of the steps; zero before the first step.
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

/// Default length of a step, used unless a round trip requires a shorter one.
pub(crate) const STEP: Duration = Duration::from_ms(1);
/// Minimum length of a step: with shorter steps, fluid would cost more than packets.
pub(crate) const LEAST_STEP: Duration = Duration::from_us(100);

/// State of one fluid flow. Amounts are in packets.
#[derive(Clone, Debug)]
pub(crate) struct FluidFlow {
    pub(crate) source: Source,
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    pub(crate) first_hop: u32,
    pub(crate) hop_count: u32,
    pub(crate) packet_bytes: u16,
    pub(crate) poisson: bool,
    /// True if this engine has no part of the flow.
    pub(crate) is_elsewhere: bool,
    pub(crate) sent: f64,
    pub(crate) delivered: f64,
    pub(crate) lost: f64,
}

/// State of a flow on one link of its path.
#[derive(Clone, Debug)]
pub(crate) struct FlowHop {
    pub(crate) account: u32,
    /// Index of the cut if the flow crosses to another engine after this link;
    /// [`NIL`](crate::packet::NIL) otherwise.
    pub(crate) cut: u32,
    /// Packets of the flow that wait at this link.
    pub(crate) waiting: f64,
}

/// State of a flow at a cut link, where it crosses from one engine to another. The sending engine
/// is informed of losses and delays beyond the cut, the receiving engine of the arriving amount.
#[derive(Clone, Debug)]
pub(crate) struct FluidCut {
    /// Packets that have arrived through the cut, and have not been sent on yet.
    pub(crate) came: f64,
    /// Fraction of the packets that reaches the receiver, from all reports since the last step.
    pub(crate) survives: f64,
    /// Waiting time of packets beyond the cut, in ns.
    pub(crate) wait_ns: f64,
}

/// State of a link as reported to the flows, in bytes on the wire. The state of the queue itself is
/// exact. Its losses and waiting fluid are divided among the flows one step later, and an error of
/// that division is corrected in the following step.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) port: PortId,
    pub(crate) overhead: f64,
    /// Probability that a packet is lost on the wire.
    pub(crate) wire_loss: f64,
    /// Arrivals from flows in this step; the first are smooth, the second random.
    pub(crate) smooth: Inflow,
    pub(crate) poisson: Inflow,
    /// Fluid of all flows that waits at this link (`waiting`) or was lost at it (`lost`).
    pub(crate) waiting: f64,
    pub(crate) lost: f64,
    /// Fraction of the arrivals that is lost, and fraction of the rest that is sent on.
    pub(crate) loss: f64,
    pub(crate) passed: f64,
    /// Waiting time of a packet that arrives now, in ns.
    pub(crate) wait_ns: f64,
}

/// Measurements of a link's fluid at the end of a step, in bytes on the wire.
#[derive(Debug)]
pub(crate) struct FluidMeasurement {
    /// Bytes lost since the start.
    pub(crate) lost: f64,
    /// Bytes that wait, without random noise.
    pub(crate) waiting: f64,
    /// Waiting time of a packet that arrives now, in ns.
    pub(crate) wait_ns: f64,
    pub(crate) up: bool,
}

/// Bytes and packets that arrive at a link in one step.
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

/// Returns the random generator of flow `index`. Links and packet sources use the streams with
/// lower numbers.
pub(crate) fn flow_random(seed: u64, index: u32) -> Random {
    Random::new(seed, 2 << 32 | u64::from(index))
}

/// Returns the random generator of the fluid in the queue of the link out of `port`.
pub(crate) fn queue_random(seed: u64, port: PortId) -> Random {
    Random::new(seed, 3 << 32 | u64::from(port.0))
}
