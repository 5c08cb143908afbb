//! Table `[network]`: a simulated network, instead of one of kernel objects.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use timeloom_time::Duration;

use crate::plan::{Engines, Named, Ptp, PtpClock, ServingHost};
use crate::table::{table, words};
use crate::words::BitRate;

table! {
/// Simulated network. All switches and links of `[system]` are then simulated, and each host and
/// device joins the network through a portal.
#[noun = "[network]"]
pub struct Network {
    /// Names of the IP routers.
    pub routers: Vec<String> = Vec::new(),
    /// Default properties of all links.
    pub link: Wire = Wire::default(),
    /// Generated topologies. Their nodes have names NAME-…, which `system.links` may contain.
    pub generate: Vec<Generate> = Vec::new(),
    /// File with a graph, `.gml` or `.graphml`. A node is a router unless its `type` says
    /// otherwise, and its name is its `label`. In a file the path is relative to the scenario file;
    /// in a plan it is absolute.
    pub topology: Option<PathBuf>,
    /// Background traffic between simulated hosts.
    pub traffic: Vec<Traffic> = Vec::new(),
    /// Interval at which the rates of fluid traffic are updated. Default: 1 ms, or a quarter of the
    /// shortest round trip of a fluid TCP flow if that is less.
    pub fluid_step: Option<Duration>,
    /// PTP settings.
    pub ptp: Ptp = Ptp::default(),
    /// PTP clocks, by the names of their nodes.
    pub clocks: Named<PtpClock> = Named::new(),
    /// Simulated hosts that serve real programs, by name.
    pub hosts: Named<ServingHost> = Named::new(),
    /// Engines that simulate the network, if there are several.
    pub engines: Option<Engines>,
}
}

table! {
/// Effects of a link on packets, which are the same in both directions. A value that is left out is
/// taken from `network.link`, whose own defaults are 1 Gbit/s, no delay, no jitter, no loss, and a
/// drop-tail queue of 1000 packets.
#[noun = "a link's properties"]
#[derive(Copy)]
pub struct Wire {
    /// Bit rate, in which Ethernet's preamble, header, checksum and gap count.
    pub rate: Option<BitRate>,
    /// Propagation delay.
    pub delay: Option<Duration>,
    /// Maximum additional delay, which is random and uniform from 0 to this value. Packets are not
    /// reordered.
    pub jitter: Option<Duration>,
    /// Probability that a packet is lost, from 0 to 1.
    #[within(Self::LOSSES)]
    pub loss: Option<f64>,
    /// Maximum number of packets in the queue.
    pub queue: Option<u16>,
    /// Queue discipline.
    pub discipline: Option<Discipline>,
    /// Lets `red` and `codel` mark ECN-capable packets instead of dropping them. If false, all are
    /// dropped.
    pub ecn: Option<bool>,
    /// Maximum size of an IP packet, in bytes. If left out, it is 1500 at the interfaces of real
    /// programs and unlimited elsewhere.
    #[within(Self::LEAST_MTU..)]
    pub mtu: Option<u16>,
}
}

impl Wire {
    /// Permitted probabilities of a loss.
    pub(crate) const LOSSES: RangeInclusive<f64> = 0.0..=1.0;

    /// Minimum MTU in bytes (RFC 791, section 3.2).
    pub(crate) const LEAST_MTU: u16 = 68;

    /// Returns true if a link of kernel objects cannot have all of these properties.
    pub fn is_beyond_the_kernel(&self) -> bool {
        let rate_only = Self {
            rate: self.rate,
            ..Self::default()
        };
        *self != rate_only
    }

    /// Returns `self`, with missing values taken from `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            rate: self.rate.or(other.rate),
            delay: self.delay.or(other.delay),
            jitter: self.jitter.or(other.jitter),
            loss: self.loss.or(other.loss),
            queue: self.queue.or(other.queue),
            discipline: self.discipline.or(other.discipline),
            ecn: self.ecn.or(other.ecn),
            mtu: self.mtu.or(other.mtu),
        }
    }
}

words! {
/// Queue discipline.
pub enum Discipline {
    /// First in, first out; packets are dropped when the queue is full.
    DropTail = "drop-tail",
    /// Random early detection, with thresholds of 5 and 15 packets on average.
    Red = "red",
    /// Controlled delay (RFC 8289), with a target of 5 ms and an interval of 100 ms.
    Codel = "codel",
    /// Strict priorities, by IP precedence.
    Priority = "priority",
    /// A packet that finds 20 packets in the queue (65 from 10 Gbit/s on) is marked (ECN). It is
    /// dropped if its sender does not support ECN. The threshold is that of DCTCP.
    Step = "step",
}
}

impl Discipline {
    /// Returns true if the discipline can mark packets instead of dropping them.
    pub fn can_mark(self) -> bool {
        matches!(self, Self::Red | Self::Codel | Self::Step)
    }
}

table! {
/// A generated topology.
#[noun = "a generated topology"]
pub struct Generate {
    /// Prefix of the names of the topology's nodes, followed by `-`.
    pub name: String,
    /// Shape of the topology.
    pub shape: Shape,
    /// Size, whose meaning depends on the shape: hosts of a star, hosts on each side of a dumbbell,
    /// routers of a line or ring, levels of a tree, the k of a fat tree, routers on the backbone of
    /// a campus.
    #[within(Self::LEAST..)]
    pub size: u16,
    /// Branches at each switch of a tree, and hosts at each leaf. In a campus: buildings, LANs and
    /// hosts at each place.
    #[within(Self::LEAST..)]
    pub fanout: u16 = 2,
    /// Properties of the links to the topology's hosts.
    pub access: Wire = Wire::default(),
    /// Properties of the links between the topology's switches or routers.
    pub trunk: Wire = Wire::default(),
}
}

impl Generate {
    /// Minimum size and fan-out.
    pub(crate) const LEAST: u16 = 1;

    /// Returns the approximate number of nodes of the topology.
    pub fn nodes(&self) -> u64 {
        let (size, fanout) = (u64::from(self.size), u64::from(self.fanout));
        match self.shape {
            Shape::Dumbbell | Shape::Ring | Shape::Line => 2 * size + 2,
            Shape::Star => size + 1,
            Shape::Tree => fanout.saturating_pow(size.min(64) as u32 + 1),
            Shape::FatTree => size.pow(3) / 4 + 5 * size * size / 4,
            Shape::Campus => {
                let lan = 1 + fanout;
                size * (1 + fanout * (1 + fanout * lan))
            }
        }
    }
}

words! {
/// Shape of a topology.
pub enum Shape {
    /// NAME-left and NAME-right, two routers with hosts NAME-l0 …, NAME-r0 ….
    Dumbbell = "dumbbell",
    /// NAME-switch with hosts NAME-h0 ….
    Star = "star",
    /// Switches NAME-s0 … with hosts NAME-h0-0 … at the leaves.
    Tree = "tree",
    /// Routers NAME-core0 …, NAME-agg0-0 …, NAME-edge0-0 …, hosts NAME-h0-0-0 ….
    FatTree = "fat-tree",
    /// Routers NAME-r0 … in a ring with a host NAME-h0-0 … each.
    Ring = "ring",
    /// Routers NAME-r0 … in a row with a host NAME-h0-0 … each.
    Line = "line",
    /// Routers NAME-b0 … in a ring, buildings NAME-g0-0 …, LANs of hosts.
    Campus = "campus",
}
}

table! {
/// Traffic from one simulated host to another.
#[noun = "traffic"]
pub struct Traffic {
    /// Source host.
    pub from: String,
    /// Destination host.
    pub to: String,
    /// Name in the results, such as `backup` in `net.flow.backup.loss`; if left out, FROM-TO.
    pub name: Option<String>,
    /// Kind of traffic.
    pub kind: TrafficKind,
    /// Simulation of the traffic as packets or as rates.
    pub model: TrafficModel = TrafficModel::default(),
    /// Bit rate of a source of datagrams. TCP determines its own rate.
    pub rate: Option<BitRate>,
    /// Mean duration of a burst of `on-off`.
    pub on: Option<Duration>,
    /// Mean duration of a silence of `on-off`.
    pub off: Option<Duration>,
    /// Size of a datagram with its IP header, in bytes.
    #[within(1..)]
    pub bytes: u16 = 1_000,
    /// Enables ECN at both ends of a TCP flow.
    pub ecn: bool = false,
    /// Virtual time at which the traffic starts.
    pub start: Duration = Duration::ZERO,
}
}

words! {
/// Kind of traffic.
pub enum TrafficKind {
    /// Datagrams at a constant rate.
    Udp = "udp",
    /// Datagrams at random instants (a Poisson process).
    Poisson = "poisson",
    /// Datagrams at a constant rate, in bursts and silences of random length.
    OnOff = "on-off",
    /// Bulk transfer by TCP NewReno.
    Reno = "reno",
    /// Bulk transfer by TCP CUBIC.
    Cubic = "cubic",
    /// Bulk transfer by TCP CUBIC with the Reno-friendly window of RFC 8312, as in Linux.
    Cubic8312 = "cubic-8312",
    /// Bulk transfer by TCP BBR, version 1.
    Bbr = "bbr",
    /// Bulk transfer by DCTCP. Needs links that mark packets: `discipline = "step"`.
    Dctcp = "dctcp",
}
}

impl TrafficKind {
    /// Returns true for the bulk transfers by TCP.
    pub const fn is_tcp(self) -> bool {
        !matches!(self, Self::Udp | Self::Poisson | Self::OnOff)
    }
}

words! {
/// Simulation of traffic, as packets or as rates.
pub enum TrafficModel {
    /// Single packets.
    Packet = "packet",
    /// Rates that change once per step. The cost does not depend on the number of packets for which
    /// they stand.
    Fluid = "fluid",
}
}
