//! PTP in a simulated network: the tables `[network.ptp]` and `[network.clocks.NAME]`.

use timeloom_ptp::{Role, Transport};
use timeloom_time::Duration;

use crate::plan::ClockSpec;
use crate::table::{table, words};
use crate::words::Ipv4Interface;

table! {
/// PTP settings of the clocks in a simulated network. Real programs that exchange messages with
/// these clocks need the same settings.
#[noun = "`network.ptp`"]
#[derive(Copy, Eq)]
pub struct Ptp {
    /// PTP profile.
    pub profile: PtpProfile = PtpProfile::default(),
    /// Transport of messages.
    pub transport: Transport = Transport::default(),
    /// Domain number. If left out, that of the profile.
    pub domain: Option<u8>,
    /// Interval between Sync messages: a power of two of a second, such as `125 ms`. If left out,
    /// that of the profile.
    pub sync_interval: Option<Duration>,
    /// Interval between delay requests. If left out, that of the profile.
    pub delay_interval: Option<Duration>,
    /// Interval between Announce messages. If left out, that of the profile.
    pub announce_interval: Option<Duration>,
    /// Signature scheme by which every clock on the path signs the time that it forwards. The keys
    /// are derived from the scenario's seed.
    pub security: PtpSecurity = PtpSecurity::default(),
    /// Reaction of slaves to signed time whose verification fails. If left out, `strict`.
    pub policy: Option<PtpPolicy>,
}
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

words! {
/// Profile of IEEE 1588.
pub enum PtpProfile {
    /// Default profile with peer delay measurement.
    PeerToPeer = "p2p",
    /// Default profile with delay requests.
    EndToEnd = "default",
    /// IEC/IEEE 61850-9-3.
    PowerUtility = "61850-9-3",
    /// IEEE C37.238-2011.
    Power2011 = "c37.238-2011",
    /// IEEE C37.238-2017.
    Power2017 = "c37.238-2017",
}
}

impl PtpProfile {
    /// Returns the name that `timeloom ptp --profile` accepts.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

words! {
/// Scheme by which time is signed.
pub enum PtpSecurity {
    /// No signatures.
    None = "none",
    /// Ed25519: one signature for each hop.
    Ed25519 = "ed25519",
    /// BLS: one signature for the whole path.
    Bls = "bls",
    /// BLS with keys, each of which signs a single Sync.
    BlsOnce = "bls-once",
}
}

words! {
/// Reaction of a slave to time without a valid signature.
pub enum PtpPolicy {
    /// The time is not used.
    Strict = "strict",
    /// The violation is reported, and the time is used.
    Monitor = "monitor",
}
}

table! {
/// Attack that a clock performs.
#[noun = "a rogue"]
#[derive(Copy, Eq)]
pub struct PtpRogue {
    /// Kind of attack.
    pub attack: PtpAttack,
    /// Virtual time at which the attack starts.
    pub from: Duration = Duration::ZERO,
    /// Size of the attack. If left out, 10 us for `correction` and `lie`, and 2 ms for
    /// `delay-sync`.
    pub by: Option<Duration>,
}
}

words! {
/// Attack on time by a clock on the path, or on the wire behind that clock.
pub enum PtpAttack {
    /// Adds to the correction of Follow_Up messages after they were signed.
    Correction = "correction",
    /// Changes the time in Follow_Up messages by 64 ns.
    Origin = "origin",
    /// Removes the signatures.
    Strip = "strip",
    /// Removes the last hop from the chain of signatures.
    RemoveHop = "remove-hop",
    /// Changes the epoch of the keys in messages.
    Epoch = "epoch",
    /// Replays Sync and Follow_Up messages that are two seconds old.
    Replay = "replay",
    /// Sends a forged Sync before each genuine one.
    SpoofSync = "spoof-sync",
    /// Delays Sync messages.
    DelaySync = "delay-sync",
    /// Overstates the residence time of the clock itself, signed with its valid key. Only the
    /// bounds on residence times limit it.
    Lie = "lie",
}
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

table! {
/// PTP clock at a node of a simulated network. NAME is a simulated switch for a transparent clock,
/// and a simulated host for any other. A node that does not exist is created; `system.links` must
/// then connect it.
#[noun = "a PTP clock"]
pub struct PtpClock {
    /// Role of the clock.
    pub role: Role,
    /// Address of the host. For a transparent clock, source address of its own messages. If left
    /// out, it is chosen automatically.
    pub address: Option<Ipv4Interface>,
    /// Clock from which timestamps are taken. If left out, it shows true time.
    pub clock: Option<ClockSpec>,
    /// Resolution of the clock's timestamps.
    pub resolution: Duration = Duration::from_ns(1),
    /// Attack that the clock performs, if it is malicious.
    pub rogue: Option<PtpRogue>,
}
}

/// Names of the recorded signals of a slave or monitor: the offset measured at each Sync, in
/// seconds; its true error at each Sync and at each violation of signed time, in seconds; and the
/// number of violations detected.
pub const PTP_SIGNALS: [&str; 3] = ["ptp.offset", "clock.offset", "ptp.violations"];
