//! PTP in a simulated network: the tables `[network.ptp]` and `[network.clocks.NAME]`.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_ptp::{Role, Transport};
use timeloom_time::Duration;

use crate::plan::ClockSpec;
use crate::read::{Fields, Read};
use crate::words::{self, Ipv4Interface};

/// PTP settings of the clocks in a simulated network. Real programs that exchange messages with
/// these clocks need the same settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Ptp {
    /// PTP profile.
    #[schemars(default)]
    pub profile: PtpProfile,
    /// Transport of messages.
    #[schemars(default)]
    pub transport: Transport,
    /// Domain number. If left out, that of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u8>,
    /// Interval between Sync messages: a power of two of a second, such as `125 ms`. If left out,
    /// that of the profile.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub sync_interval: Option<Duration>,
    /// Interval between delay requests. If left out, that of the profile.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub delay_interval: Option<Duration>,
    /// Interval between Announce messages. If left out, that of the profile.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub announce_interval: Option<Duration>,
    /// Signature scheme by which every clock on the path signs the time that it forwards. The keys
    /// are derived from the scenario's seed.
    #[schemars(default)]
    pub security: PtpSecurity,
    /// Reaction of slaves to signed time whose verification fails. If left out, `strict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PtpPolicy>,
}

impl Ptp {
    /// Returns the base-2 logarithm of an interval in seconds. Returns `None` if the interval is
    /// not a power of two from 2^-7 s (7.8125 ms) to 16 s.
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

/// Profile of IEEE 1588.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum PtpProfile {
    /// Default profile with peer delay measurement.
    #[default]
    #[serde(rename = "p2p")]
    PeerToPeer,
    /// Default profile with delay requests.
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
    /// Returns the name that `timeloom ptp --profile` accepts.
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

/// Scheme by which time is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PtpSecurity {
    /// No signatures.
    #[default]
    None,
    /// Ed25519: one signature for each hop.
    Ed25519,
    /// BLS: one signature for the whole path.
    Bls,
    /// BLS with keys, each of which signs a single Sync.
    BlsOnce,
}

/// Reaction of a slave to time without a valid signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtpPolicy {
    /// The time is not used.
    #[default]
    Strict,
    /// The violation is reported, and the time is used.
    Monitor,
}

/// Attack that a clock performs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PtpRogue {
    /// Kind of attack.
    pub attack: PtpAttack,
    /// Virtual time at which the attack starts.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub from: Duration,
    /// Size of the attack. If left out, 10 us for `correction` and `lie`, and 2 ms for
    /// `delay-sync`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub by: Option<Duration>,
}

/// Attack on time by a clock on the path, or on the wire behind that clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PtpAttack {
    /// Adds to the correction of Follow_Up messages after they were signed.
    #[default]
    Correction,
    /// Changes the time in Follow_Up messages by 64 ns.
    Origin,
    /// Removes the signatures.
    Strip,
    /// Removes the last hop from the chain of signatures.
    RemoveHop,
    /// Changes the epoch of the keys in messages.
    Epoch,
    /// Replays Sync and Follow_Up messages that are two seconds old.
    Replay,
    /// Sends a forged Sync before each genuine one.
    SpoofSync,
    /// Delays Sync messages.
    DelaySync,
    /// Overstates the residence time of the clock itself, signed with its valid key. Only the
    /// bounds on residence times limit it.
    Lie,
}

impl PtpAttack {
    /// Returns true if the attack uses the key `by`.
    pub fn has_amount(self) -> bool {
        matches!(self, Self::Correction | Self::DelaySync | Self::Lie)
    }

    /// Returns true if the attack is possible only on signed time.
    pub fn needs_signatures(self) -> bool {
        matches!(self, Self::Strip | Self::RemoveHop | Self::Epoch)
    }
}

/// PTP clock at a node of a simulated network. NAME is a simulated switch for a transparent clock,
/// and a simulated host for any other. A node that does not exist is created; `system.links` must
/// then connect it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PtpClock {
    /// Role of the clock.
    pub role: Role,
    /// Address of the host. For a transparent clock, source address of its own messages. If left
    /// out, it is chosen automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Interface>,
    /// Clock from which timestamps are taken. If left out, it shows true time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSpec>,
    /// Resolution of the clock's timestamps.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::one_nanosecond", with = "words::DurationText")]
    pub resolution: Duration,
    /// Attack that the clock performs, if it is malicious.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rogue: Option<PtpRogue>,
}

/// Names of the recorded signals of a slave or monitor: the offset measured at each Sync, in
/// seconds; its true error at each Sync and at each violation of signed time, in seconds; and the
/// number of violations detected.
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
