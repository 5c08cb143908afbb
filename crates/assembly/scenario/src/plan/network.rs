//! The `[network]` table: a network that is simulated instead of being made of
//! kernel parts.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::{Engines, Named, Ptp, PtpClock, ServingHost};
use crate::read::{Fields, Read};
use crate::words::{self, BitRate};

/// A simulated network. Where this table is, all switches and links of
/// `[system]` are simulated, and each host and device joins at a portal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Network {
    /// The names of IP routers.
    #[schemars(default)]
    pub routers: Vec<String>,
    /// What links have that do not say otherwise.
    #[schemars(default)]
    pub link: Wire,
    /// Topologies that are generated. Their nodes are called NAME-…, and
    /// `system.links` may lead to them.
    #[schemars(default)]
    pub generate: Vec<Generate>,
    /// A file with a graph, `.gml` or `.graphml`: its nodes are routers, or what
    /// their `type` says, called by their `label`. In a file relative to the
    /// scenario file; in a plan absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<PathBuf>,
    /// Traffic between hosts that are only simulated.
    #[schemars(default)]
    pub traffic: Vec<Traffic>,
    /// How often the rates of fluid traffic change. What is left out is chosen:
    /// 1 ms, or a quarter of the shortest round trip of a fluid TCP.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub fluid_step: Option<Duration>,
    /// How PTP clocks speak.
    #[schemars(default)]
    pub ptp: Ptp,
    /// PTP clocks, by the names of their nodes.
    #[schemars(default)]
    pub clocks: Named<PtpClock>,
    /// Simulated hosts that serve real programs, by their names.
    #[schemars(default)]
    pub hosts: Named<ServingHost>,
    /// The engines that run it, where they are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engines: Option<Engines>,
}

/// What a link does to packets, alike in both directions. What is left out is
/// as in `network.link`, and there: 1 Gbit/s, no delay, jitter or loss, a
/// queue of 1000 packets that drops what finds it full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Wire {
    /// How fast it sends. Ethernet's preamble, header, checksum and gap count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// How long a bit is on its way.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub delay: Option<Duration>,
    /// Further delay, uniform from 0 to this; order is kept.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub jitter: Option<Duration>,
    /// The probability that a packet is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub loss: Option<f64>,
    /// How many packets may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u16>,
    /// What happens to packets that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
    /// Whether `red` and `codel` mark packets that know marks of congestion (ECN)
    /// where they drop others; else they drop all alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Bytes of the longest IP packet that it takes; 1500 at the interfaces of
    /// real programs when it is left out, and no limit elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68))]
    pub mtu: Option<u16>,
}

impl Wire {
    /// Whether it says anything that a link of kernel parts cannot do.
    pub fn is_beyond_the_kernel(&self) -> bool {
        let rate_only = Self {
            rate: self.rate,
            ..Self::default()
        };
        *self != rate_only
    }

    /// This, and what it leaves out from `other`.
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

/// How a queue treats packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Discipline {
    /// First in, first out; what finds it full is dropped.
    #[default]
    #[serde(rename = "drop-tail")]
    DropTail,
    /// Random early detection, from 5 to 15 packets on average.
    Red,
    /// Controlled delay (RFC 8289), 5 ms and 100 ms.
    Codel,
    /// Strict priorities by IP precedence.
    Priority,
    /// What finds 20 packets waiting, 65 from 10 Gbit/s on, is marked (ECN), and dropped where its
    /// sender knows no marks: the threshold of DCTCP.
    Step,
}

impl Discipline {
    /// Whether it can mark packets instead of dropping them.
    pub fn can_mark(self) -> bool {
        matches!(self, Self::Red | Self::Codel | Self::Step)
    }
}

/// A topology that is generated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Generate {
    /// The names of its nodes begin with this and `-`.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Its size: hosts of a star, hosts on each side of a dumbbell, routers of
    /// a line or ring, levels of a tree, the k of a fat tree, routers on the
    /// backbone of a campus.
    #[schemars(range(min = 1))]
    pub size: u16,
    /// Branches at each switch of a tree (and hosts at each leaf), buildings,
    /// LANs and hosts at each place of a campus.
    #[schemars(default = "two", range(min = 1))]
    pub fanout: u16,
    /// The links to its hosts.
    #[schemars(default)]
    pub access: Wire,
    /// The links between its switches or routers.
    #[schemars(default)]
    pub trunk: Wire,
}

impl Generate {
    /// About how many nodes it has.
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

/// The shape of a topology.
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
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// What it is called in the results, as in `net.flow.backup.loss`; FROM-TO when
    /// it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    pub kind: TrafficKind,
    /// Whether it is made of packets or of rates.
    #[schemars(default)]
    pub model: TrafficModel,
    /// How fast a source of datagrams sends; TCP finds out by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Mean length of a burst of `on-off`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub on: Option<Duration>,
    /// Mean length of a silence of `on-off`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub off: Option<Duration>,
    /// Bytes of a datagram, from the IP header on.
    #[schemars(default = "thousand", range(min = 1))]
    pub bytes: u16,
    /// Whether both ends of a TCP know marks of congestion (ECN).
    #[schemars(default)]
    pub ecn: bool,
    /// When it begins.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub start: Duration,
}

/// What traffic is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrafficKind {
    /// Datagrams at a constant rate.
    #[default]
    Udp,
    /// Datagrams at random instants.
    Poisson,
    /// Datagrams at a constant rate in bursts of random length.
    #[serde(rename = "on-off")]
    OnOff,
    /// A bulk transfer by TCP NewReno.
    Reno,
    /// A bulk transfer by TCP CUBIC.
    Cubic,
    /// A bulk transfer by TCP CUBIC with the Reno-friendly window of RFC 8312, as Linux has it.
    #[serde(rename = "cubic-8312")]
    Cubic8312,
    /// A bulk transfer by TCP BBR, version 1.
    Bbr,
    /// A bulk transfer by DCTCP, which wants links that mark: `discipline = "step"`.
    Dctcp,
}

impl TrafficKind {
    /// The word in scenarios.
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

    /// Whether it is a bulk transfer by TCP.
    pub const fn is_tcp(self) -> bool {
        !matches!(self, Self::Udp | Self::Poisson | Self::OnOff)
    }
}

/// What traffic is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrafficModel {
    /// Packets.
    #[default]
    Packet,
    /// Rates that change once in a step: the cost does not depend on how many
    /// packets they stand for.
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
