//! PTP in a simulated network: `[network.ptp]` and `[network.clocks.NAME]`.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::ClockSpec;
use crate::read::{Fields, Read};
use crate::words::{self, Ipv4Interface};

/// How the PTP clocks of a simulated network speak; those of real programs that
/// are to understand them must be told the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Ptp {
    /// Which profile.
    #[schemars(default)]
    pub profile: PtpProfile,
    /// How messages travel.
    #[schemars(default)]
    pub transport: PtpTransport,
    /// Another domain than the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u8>,
    /// Another time between Syncs than the profile's: a power of two of a
    /// second, such as `125 ms`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub sync_interval: Option<Duration>,
    /// Another time between requests for delays than the profile's.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub delay_interval: Option<Duration>,
    /// Another time between Announces than the profile's.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub announce_interval: Option<Duration>,
    /// With what every hop signs the time that it hands on. The keys come from
    /// the scenario's seed.
    #[schemars(default)]
    pub security: PtpSecurity,
    /// What slaves do about signed time that does not hold; strict when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PtpPolicy>,
}

impl Ptp {
    /// The base-2 logarithm of an interval in seconds; `None` when it is no
    /// power of two from 2^-7 s (7.8125 ms) to 16 s.
    pub fn log_of(interval: Duration) -> Option<i8> {
        (-7..=4).find(|log: &i8| {
            let second: i64 = 1_000_000_000;
            let length_ns = if *log < 0 {
                second >> -log
            } else {
                second << log
            };
            interval.as_ns() == length_ns
        })
    }
}

/// A profile of IEEE 1588.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum PtpProfile {
    /// The default profile with peer delay.
    #[default]
    #[serde(rename = "p2p")]
    PeerToPeer,
    /// The default profile with delay requests.
    #[serde(rename = "default")]
    EndToEnd,
    /// IEC/IEEE 61850-9-3.
    #[serde(rename = "61850-9-3")]
    PowerUtility,
    /// IEEE C37.238-2011.
    #[serde(rename = "c37.238-2011")]
    Power2011,
    /// IEEE C37.238-2017.
    #[serde(rename = "c37.238-2017")]
    Power2017,
}

impl PtpProfile {
    /// Its name, as `timeloom ptp --profile` knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PeerToPeer => "p2p",
            Self::EndToEnd => "default",
            Self::PowerUtility => "61850-9-3",
            Self::Power2011 => "c37.238-2011",
            Self::Power2017 => "c37.238-2017",
        }
    }
}

/// How PTP messages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtpTransport {
    /// In Ethernet frames.
    #[default]
    L2,
    /// In UDP over IPv4.
    Udp4,
}

/// With what time is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PtpSecurity {
    /// Not at all.
    #[default]
    None,
    /// Ed25519: one signature for each hop.
    Ed25519,
    /// BLS: one signature for the whole path.
    Bls,
    /// BLS with keys that sign each Sync once.
    BlsOnce,
}

/// What a slave does about time that is not answered for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtpPolicy {
    /// It does not use it.
    #[default]
    Strict,
    /// It says so, and uses it.
    Monitor,
}

/// What a clock does to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PtpRogue {
    /// What.
    pub attack: PtpAttack,
    /// From when on.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub from: Duration,
    /// By how much, of `correction` and `lie` (10 us when left out) and of
    /// `delay-sync` (2 ms).
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub by: Option<Duration>,
}

/// An attack on time by a clock of the path, or by the wire behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PtpAttack {
    /// Adds to the correction of Follow_Ups after they were signed.
    #[default]
    Correction,
    /// Changes the time in Follow_Ups by 64 ns.
    Origin,
    /// Takes the signatures away.
    Strip,
    /// Takes the last hop out of the chain of signatures.
    RemoveHop,
    /// Names another epoch of keys.
    Epoch,
    /// Sends Sync and Follow_Up of two seconds ago once more.
    Replay,
    /// Sends a Sync of its own making before each genuine one.
    SpoofSync,
    /// Holds Syncs back.
    DelaySync,
    /// Says too much of itself, with its valid key; only its bounds limit it.
    Lie,
}

impl PtpAttack {
    /// Whether `by` says anything.
    pub fn has_amount(self) -> bool {
        matches!(self, Self::Correction | Self::DelaySync | Self::Lie)
    }

    /// Whether it is about signatures, which there must be.
    pub fn needs_signatures(self) -> bool {
        matches!(self, Self::Strip | Self::RemoveHop | Self::Epoch)
    }
}

/// A PTP clock at a node of a simulated network. The name is that of a simulated
/// switch, for a transparent clock, or of a simulated host; one that there is not
/// yet is made, and `system.links` lead to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PtpClock {
    /// What it is.
    pub role: PtpRole,
    /// The address of a host; that of the messages which a transparent clock
    /// sends itself. Chosen when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Interface>,
    /// The clock that stamps, when that differs from true time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSpec>,
    /// Its stamps are multiples of this.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::one_nanosecond", with = "words::DurationText")]
    pub resolution: Duration,
    /// What it does to others, if it is not honest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rogue: Option<PtpRogue>,
}

/// What a clock is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtpRole {
    /// A switch that says how long a Sync stayed in it.
    #[default]
    Transparent,
    /// A host that tells the time.
    Grandmaster,
    /// A host that follows.
    Slave,
    /// A host that measures as a slave does and leaves its clock alone.
    Monitor,
}

/// What is recorded of a slave or monitor: at each Sync, in seconds, what it
/// measured; then and at each violation of signed time its true error, and how
/// many violations it has noticed.
pub const PTP_SIGNALS: [&str; 3] = ["ptp.offset", "clock.offset", "ptp.violations"];

impl Read for Ptp {
    const NOUN: &'static str = "`network.ptp`";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            profile: fields.or_default("profile"),
            transport: fields.or_default("transport"),
            domain: fields.optional("domain"),
            sync_interval: fields.optional("sync_interval"),
            delay_interval: fields.optional("delay_interval"),
            announce_interval: fields.optional("announce_interval"),
            security: fields.or_default("security"),
            policy: fields.optional("policy"),
        }
    }
}

impl Read for PtpRogue {
    const NOUN: &'static str = "a rogue";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            attack: fields.required("attack"),
            from: fields.or("from", Duration::ZERO),
            by: fields.optional("by"),
        }
    }
}

impl Read for PtpClock {
    const NOUN: &'static str = "a PTP clock";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            role: fields.required("role"),
            address: fields.optional("address"),
            clock: fields.optional("clock"),
            resolution: fields.or("resolution", words::one_nanosecond()),
            rogue: fields.optional("rogue"),
        }
    }
}
