//! PTP in a simulated network: `[network.ptp]` and `[network.clocks.NAME]`.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::ClockSpec;
use crate::read::{Fields, Read};
use crate::words::{self, Ipv4Interface};

/// PTP settings of the clocks of a simulated network. Real programs that communicate with them need
/// the same settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Ptp {
    /// Profile.
    #[schemars(default)]
    pub profile: PtpProfile,
    /// Transport of messages.
    #[schemars(default)]
    pub transport: PtpTransport,
    /// Domain, if other than the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u8>,
    /// Interval between Syncs, if other than the profile's: a power of two of a second, such as
    /// `125 ms`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub sync_interval: Option<Duration>,
    /// Interval between delay requests, if other than the profile's.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub delay_interval: Option<Duration>,
    /// Interval between Announces, if other than the profile's.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub announce_interval: Option<Duration>,
    /// Signature scheme with which every hop signs the time that it forwards. The keys are derived
    /// from the scenario's seed.
    #[schemars(default)]
    pub security: PtpSecurity,
    /// Reaction of slaves to signed time that fails verification; strict if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PtpPolicy>,
}

impl Ptp {
    /// Returns the base-2 logarithm of an interval in seconds; `None` if it is not a power of two
    /// from 2^-7 s (7.8125 ms) to 16 s.
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
    /// Default profile with peer delay.
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
    /// Returns the name, as accepted by `timeloom ptp --profile`.
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

/// Transport of PTP messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtpTransport {
    /// Ethernet frames.
    #[default]
    L2,
    /// UDP over IPv4.
    Udp4,
}

/// Signature scheme for time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PtpSecurity {
    /// No signatures.
    #[default]
    None,
    /// Ed25519: one signature per hop.
    Ed25519,
    /// BLS: one signature for the whole path.
    Bls,
    /// BLS with keys that sign each Sync once.
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

/// An attack by a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PtpRogue {
    /// Kind of attack.
    pub attack: PtpAttack,
    /// Start time of the attack.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub from: Duration,
    /// Amount for `correction` and `lie` (10 us if left out) and for `delay-sync` (2 ms).
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "words::as_optional_text"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub by: Option<Duration>,
}

/// An attack on time by a clock on the path, or by the wire behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PtpAttack {
    /// Adds to the correction of Follow_Ups after they were signed.
    #[default]
    Correction,
    /// Changes the time in Follow_Ups by 64 ns.
    Origin,
    /// Removes the signatures.
    Strip,
    /// Removes the last hop from the chain of signatures.
    RemoveHop,
    /// Sets another epoch of keys.
    Epoch,
    /// Replays the Sync and Follow_Up of two seconds ago.
    Replay,
    /// Sends a forged Sync before each genuine one.
    SpoofSync,
    /// Delays Syncs.
    DelaySync,
    /// Overstates its own residence time, signed with its valid key; limited only by the bounds on
    /// residence times.
    Lie,
}

impl PtpAttack {
    /// Returns true if the attack uses `by`.
    pub fn has_amount(self) -> bool {
        matches!(self, Self::Correction | Self::DelaySync | Self::Lie)
    }

    /// Returns true if the attack is on signatures, and therefore needs them.
    pub fn needs_signatures(self) -> bool {
        matches!(self, Self::Strip | Self::RemoveHop | Self::Epoch)
    }
}

/// A PTP clock at a node of a simulated network. The name is that of a simulated switch (for a
/// transparent clock) or of a simulated host. A node that does not exist is created, and
/// `system.links` refer to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PtpClock {
    /// Role.
    pub role: PtpRole,
    /// Address of a host, or source address of the messages that a transparent clock itself sends.
    /// Chosen automatically if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Interface>,
    /// The clock used for timestamps, if it differs from true time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSpec>,
    /// Resolution of its timestamps.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::one_nanosecond", with = "words::DurationText")]
    pub resolution: Duration,
    /// Attack by this clock, if it is malicious.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rogue: Option<PtpRogue>,
}

/// Role of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtpRole {
    /// A switch that reports the residence time of Syncs.
    #[default]
    Transparent,
    /// A host that distributes time.
    Grandmaster,
    /// A host that synchronises its clock.
    Slave,
    /// A host that measures as a slave does, without adjusting its clock.
    Monitor,
}

/// Recorded signals of a slave or monitor: the measured offset at each Sync, in seconds; its true
/// error, at each Sync and at each violation of signed time; and the number of violations detected.
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
