//! Reports of a clock about its own operation.

use std::fmt;

use timeloom_wire::{ClockIdentity, ParseError, PortIdentity, TimeInterval};

use crate::security::VerificationFailure;
use crate::{PortState, SyncReport};

/// An event for logs and counters. Drivers may ignore it without any effect on the clock.
#[derive(Clone, Debug, PartialEq)]
pub enum ClockReport {
    /// A slave measured its offset from the master.
    Offset {
        /// Port identity of the master.
        master: PortIdentity,
        /// `sequenceId` of the Sync.
        sequence: u16,
        /// Slave minus master.
        offset: TimeInterval,
        /// Delay that was used: of the ingress link (peer-to-peer), or of the path (end-to-end).
        delay: TimeInterval,
        /// True if the signatures of all hops were valid.
        authenticated: bool,
    },
    /// A port measured the delay of its link.
    PeerDelay {
        /// Port number.
        port: u16,
        /// Port at the other end of the link.
        neighbour: PortIdentity,
        /// Mean delay of the link in one direction.
        delay: TimeInterval,
        /// Rate of the neighbour's clock minus that of this clock, in parts per 10^9.
        rate_ppb: f64,
    },
    /// A transparent clock forwarded a Sync.
    Relayed {
        /// Port on which the Sync arrived.
        ingress: u16,
        /// Port on which the Sync left.
        egress: u16,
        /// `sequenceId` of the Sync.
        sequence: u16,
        /// Residence time of the Sync, converted to the rate of the grandmaster's clock.
        residence: TimeInterval,
    },
    /// The port of an ordinary clock entered another state.
    State {
        /// The new state.
        state: PortState,
        /// Grandmaster that a slave follows; `None` in other states.
        grandmaster: Option<ClockIdentity>,
    },
    /// A packet was not used.
    Dropped {
        /// Port on which the packet arrived.
        port: u16,
        /// Reason for which the packet was not used.
        reason: DropReason,
    },
    /// A clock noticed a violation, and located it as far as possible.
    Failure {
        /// Kind and place of the violation.
        failure: VerificationFailure,
        /// True if the violation is also part of the record of a Sync.
        in_record: bool,
    },
    /// A slave's processing of a Sync has ended. Every Sync that a slave receives is reported once,
    /// including those of masters that it does not follow.
    Sync(Box<SyncReport>),
}

/// Reasons for which a packet was not used. They do not imply an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The bytes are not a message; the value is the number of the parse error.
    Malformed(u8),
    /// The message has another domain or `sdoId`.
    Domain,
    /// The message has an unknown version of PTP.
    Version,
    /// An event message had no arrival timestamp.
    NoStamp,
    /// The departure timestamp was lost. There is no Follow_Up for this Sync; the port continues.
    LostStamp,
    /// Too many Syncs wait for their Follow_Ups.
    QueueFull,
    /// A Sync had no Follow_Up, or a Follow_Up no Sync.
    Unmatched,
    /// The residence time is negative or implausibly long: the clock was stepped meanwhile.
    Residence,
    /// The message is not meant for this kind of clock.
    NotForUs,
    /// A signed message cannot be sent, because the next hop is not known yet.
    NoNextHop,
    /// A tag or a TLV that the profile requires is missing.
    Profile,
    /// The signature was not checked: more signatures arrived in a second than the limits allow.
    Flood,
    /// All 48-bit sequence numbers of this key are used; the clock sends nothing more.
    SequenceUsedUp,
}

impl fmt::Display for DropReason {
    /// Formats the reason as its name in logs and counters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed(_) => "malformed",
            Self::Domain => "another domain",
            Self::Version => "unknown version",
            Self::NoStamp => "no arrival stamp",
            Self::LostStamp => "departure stamp lost",
            Self::QueueFull => "too many Syncs wait",
            Self::Unmatched => "Sync or Follow_Up without the other",
            Self::Residence => "absurd residence",
            Self::NotForUs => "not for this kind of clock",
            Self::NoNextHop => "next hop unknown",
            Self::Profile => "not as the profile asks",
            Self::Flood => "flood of signatures",
            Self::SequenceUsedUp => "sequence numbers used up",
        })
    }
}

impl From<ParseError> for DropReason {
    fn from(error: ParseError) -> Self {
        Self::Malformed(error as u8)
    }
}

/// Number of packets that were not used, by reason.
#[derive(Clone, Debug, Default)]
pub struct Drops(std::collections::HashMap<DropReason, u64>);

impl Drops {
    /// Counts `report` if it is about a packet that was not used.
    pub fn record(&mut self, report: &ClockReport) {
        if let ClockReport::Dropped { reason, .. } = report {
            *self.0.entry(*reason).or_default() += 1;
        }
    }

    /// Returns the number of packets that were not used for `reason`.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }
}
