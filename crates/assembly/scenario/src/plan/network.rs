//! Table `[network]`: a simulated network, instead of one of kernel objects.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::{Engines, Named, Ptp, PtpClock, ServingHost};
use crate::read::{Fields, Read};
use crate::words::{self, BitRate};

/// Simulated network. All switches and links of `[system]` are then simulated, and each host and
/// device joins the network through a portal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Network {
    /// Names of the IP routers.
    #[schemars(default)]
    pub routers: Vec<String>,
    /// Default properties of all links.
    #[schemars(default)]
    pub link: Wire,
    /// Generated topologies. Their nodes have names NAME-…, which `system.links` may contain.
    #[schemars(default)]
    pub generate: Vec<Generate>,
    /// File with a graph, `.gml` or `.graphml`. A node is a router unless its `type` says
    /// otherwise, and its name is its `label`. In a file the path is relative to the scenario file;
    /// in a plan it is absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<PathBuf>,
    /// Background traffic between simulated hosts.
    #[schemars(default)]
    pub traffic: Vec<Traffic>,
    /// Interval at which the rates of fluid traffic are updated. Default: 1 ms, or a quarter of the
    /// shortest round trip of a fluid TCP flow if that is less.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub fluid_step: Option<Duration>,
    /// PTP settings.
    #[schemars(default)]
    pub ptp: Ptp,
    /// PTP clocks, by the names of their nodes.
    #[schemars(default)]
    pub clocks: Named<PtpClock>,
    /// Simulated hosts that serve real programs, by name.
    #[schemars(default)]
    pub hosts: Named<ServingHost>,
    /// Engines that simulate the network, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engines: Option<Engines>,
}

/// Effects of a link on packets, which are the same in both directions. A value that is left out is
/// taken from `network.link`, whose own defaults are 1 Gbit/s, no delay, no jitter, no loss, and a
/// drop-tail queue of 1000 packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Wire {
    /// Bit rate, in which Ethernet's preamble, header, checksum and gap count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Propagation delay.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub delay: Option<Duration>,
    /// Maximum additional delay, which is random and uniform from 0 to this value. Packets are not
    /// reordered.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub jitter: Option<Duration>,
    /// Probability that a packet is lost, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub loss: Option<f64>,
    /// Maximum number of packets in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u16>,
    /// Queue discipline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
    /// Lets `red` and `codel` mark ECN-capable packets instead of dropping them. If false, all are
    /// dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Maximum size of an IP packet, in bytes. If left out, it is 1500 at the interfaces of real
    /// programs and unlimited elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68))]
    pub mtu: Option<u16>,
}

impl Wire {
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

/// Queue discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Discipline {
    /// First in, first out; packets are dropped when the queue is full.
    #[default]
    #[serde(rename = "drop-tail")]
    DropTail,
    /// Random early detection, with thresholds of 5 and 15 packets on average.
    Red,
    /// Controlled delay (RFC 8289), with a target of 5 ms and an interval of 100 ms.
    Codel,
    /// Strict priorities, by IP precedence.
    Priority,
    /// A packet that finds 20 packets in the queue (65 from 10 Gbit/s on) is marked (ECN). It is
    /// dropped if its sender does not support ECN. The threshold is that of DCTCP.
    Step,
}

impl Discipline {
    /// Returns true if the discipline can mark packets instead of dropping them.
    pub fn can_mark(self) -> bool {
        matches!(self, Self::Red | Self::Codel | Self::Step)
    }
}

/// A generated topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Generate {
    /// Prefix of the names of the topology's nodes, followed by `-`.
    pub name: String,
    /// Shape of the topology.
    pub shape: Shape,
    /// Size, whose meaning depends on the shape: hosts of a star, hosts on each side of a dumbbell,
    /// routers of a line or ring, levels of a tree, the k of a fat tree, routers on the backbone of
    /// a campus.
    #[schemars(range(min = 1))]
    pub size: u16,
    /// Branches at each switch of a tree, and hosts at each leaf. In a campus: buildings, LANs and
    /// hosts at each place.
    #[schemars(default = "two", range(min = 1))]
    pub fanout: u16,
    /// Properties of the links to the topology's hosts.
    #[schemars(default)]
    pub access: Wire,
    /// Properties of the links between the topology's switches or routers.
    #[schemars(default)]
    pub trunk: Wire,
}

impl Generate {
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

/// Shape of a topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// NAME-left and NAME-right, two routers with hosts NAME-l0 …, NAME-r0 ….
    #[default]
    Dumbbell,
    /// NAME-switch with hosts NAME-h0 ….
    Star,
    /// Switches NAME-s0 … with hosts NAME-h0-0 … at the leaves.
    Tree,
    /// Routers NAME-core0 …, NAME-agg0-0 …, NAME-edge0-0 …, hosts NAME-h0-0-0 ….
    #[serde(rename = "fat-tree")]
    FatTree,
    /// Routers NAME-r0 … in a ring with a host NAME-h0-0 … each.
    Ring,
    /// Routers NAME-r0 … in a row with a host NAME-h0-0 … each.
    Line,
    /// Routers NAME-b0 … in a ring, buildings NAME-g0-0 …, LANs of hosts.
    Campus,
}

/// Traffic from one simulated host to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Traffic {
    /// Source host.
    pub from: String,
    /// Destination host.
    pub to: String,
    /// Name in the results, such as `backup` in `net.flow.backup.loss`; if left out, FROM-TO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Kind of traffic.
    pub kind: TrafficKind,
    /// Simulation of the traffic as packets or as rates.
    #[schemars(default)]
    pub model: TrafficModel,
    /// Bit rate of a source of datagrams. TCP determines its own rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Mean duration of a burst of `on-off`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub on: Option<Duration>,
    /// Mean duration of a silence of `on-off`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub off: Option<Duration>,
    /// Size of a datagram with its IP header, in bytes.
    #[schemars(default = "thousand", range(min = 1))]
    pub bytes: u16,
    /// Enables ECN at both ends of a TCP flow.
    #[schemars(default)]
    pub ecn: bool,
    /// Virtual time at which the traffic starts.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub start: Duration,
}

/// Kind of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrafficKind {
    /// Datagrams at a constant rate.
    #[default]
    Udp,
    /// Datagrams at random instants (a Poisson process).
    Poisson,
    /// Datagrams at a constant rate, in bursts and silences of random length.
    #[serde(rename = "on-off")]
    OnOff,
    /// Bulk transfer by TCP NewReno.
    Reno,
    /// Bulk transfer by TCP CUBIC.
    Cubic,
    /// Bulk transfer by TCP CUBIC with the Reno-friendly window of RFC 8312, as in Linux.
    #[serde(rename = "cubic-8312")]
    Cubic8312,
    /// Bulk transfer by TCP BBR, version 1.
    Bbr,
    /// Bulk transfer by DCTCP. Needs links that mark packets: `discipline = "step"`.
    Dctcp,
}

impl TrafficKind {
    /// Returns the keyword for this kind in scenarios.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Poisson => "poisson",
            Self::OnOff => "on-off",
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Cubic8312 => "cubic-8312",
            Self::Bbr => "bbr",
            Self::Dctcp => "dctcp",
        }
    }

    /// Returns true for the bulk transfers by TCP.
    pub const fn is_tcp(self) -> bool {
        !matches!(self, Self::Udp | Self::Poisson | Self::OnOff)
    }
}

/// Simulation of traffic, as packets or as rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrafficModel {
    /// Single packets.
    #[default]
    Packet,
    /// Rates that change once per step. The cost does not depend on the number of packets for which
    /// they stand.
    Fluid,
}

fn two() -> u16 {
    2
}
fn thousand() -> u16 {
    1_000
}

impl Read for Network {
    const NOUN: &'static str = "[network]";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            routers: fields.or_default("routers"),
            link: fields.or_default("link"),
            generate: fields.or_default("generate"),
            topology: fields.has("topology").then(|| fields.directory("topology")),
            traffic: fields.or_default("traffic"),
            fluid_step: fields.optional("fluid_step"),
            ptp: fields.or_default("ptp"),
            clocks: fields.or_default("clocks"),
            hosts: fields.or_default("hosts"),
            engines: fields.optional("engines"),
        }
    }
}

impl Wire {
    pub(super) fn take(fields: &mut Fields<'_>) -> Self {
        Self {
            rate: fields.optional("rate"),
            delay: fields.optional("delay"),
            jitter: fields.optional("jitter"),
            loss: fields.optional("loss"),
            queue: fields.optional("queue"),
            discipline: fields.optional("discipline"),
            ecn: fields.optional("ecn"),
            mtu: fields.optional("mtu"),
        }
    }
}

impl Read for Wire {
    const NOUN: &'static str = "a link's properties";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self::take(fields)
    }
}

impl Read for Generate {
    const NOUN: &'static str = "a generated topology";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            name: fields.required("name"),
            shape: fields.required("shape"),
            size: fields.required("size"),
            fanout: fields.or("fanout", two()),
            access: fields.or_default("access"),
            trunk: fields.or_default("trunk"),
        }
    }
}

impl Read for Traffic {
    const NOUN: &'static str = "traffic";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            from: fields.required("from"),
            to: fields.required("to"),
            name: fields.optional("name"),
            kind: fields.required("kind"),
            model: fields.or_default("model"),
            rate: fields.optional("rate"),
            on: fields.optional("on"),
            off: fields.optional("off"),
            bytes: fields.or("bytes", thousand()),
            ecn: fields.or_default("ecn"),
            start: fields.or("start", Duration::ZERO),
        }
    }
}
