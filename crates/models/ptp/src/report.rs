//! Reports of a clock about itself.

use std::fmt;

use timeloom_wire::{ClockIdentity, ParseError, PortIdentity, TimeInterval};

use crate::security::Failure;
use crate::{PortState, SyncReport};

/// An event for the record. No behaviour depends on its being read.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// Offset measured by a slave (slave − master).
    Offset {
        /// Identity of the master.
        master: PortIdentity,
        /// Number of the Sync.
        sequence: u16,
        /// Slave − master.
        offset: TimeInterval,
        /// Delay of the ingress link (peer to peer) or of the path (end to end).
        delay: TimeInterval,
        /// True if every hop's signature was verified.
        authenticated: bool,
    },
    /// Link measurement of a port.
    PeerDelay {
        /// Port number.
        port: u16,
        /// Port at the other end.
        neighbour: PortIdentity,
        /// Mean delay of the link.
        delay: TimeInterval,
        /// Rate of the neighbour's clock against this one, in parts per billion.
        rate_ppb: f64,
    },
    /// A Sync forwarded by a transparent clock, with its residence.
    Relayed {
        /// Ingress port.
        ingress: u16,
        /// Egress port.
        egress: u16,
        /// Number of the Sync.
        sequence: u16,
        /// Time spent in this clock, in the grandmaster's units.
        residence: TimeInterval,
    },
    /// State change of an ordinary clock's port.
    State {
        /// The state entered.
        state: PortState,
        /// Grandmaster followed, if slave.
        grandmaster: Option<ClockIdentity>,
    },
    /// A packet that was not used.
    Dropped {
        /// Ingress port.
        port: u16,
        /// Reason.
        reason: DropReason,
    },
    /// Violation of authenticated time, and its place as far as it can be known.
    Failure {
        /// Kind and place.
        failure: Failure,
        /// True if the record of its Sync includes it as well.
        in_record: bool,
    },
    /// Outcome of a Sync. Every Sync that a slave receives is reported once, including those of
    /// masters that it does not follow.
    Sync(Box<SyncReport>),
}

/// Reasons why a packet was not used that do not imply an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Not a message.
    Malformed(u8),
    /// Another domain or `sdoId`.
    Domain,
    /// Unknown version of PTP.
    Version,
    /// An event message without an ingress stamp.
    NoStamp,
    /// The departure's stamp was lost; no Follow_Up is sent, the port continues.
    LostStamp,
    /// Too many Syncs wait for their Follow_Ups.
    QueueFull,
    /// A Sync without Follow_Up, or a Follow_Up without Sync.
    Unmatched,
    /// Residence below zero or implausible: the clock was stepped in between.
    Residence,
    /// Not a message for this kind of clock.
    NotForUs,
    /// A signed message cannot be sent: the next hop is not known yet.
    NoNextHop,
    /// A tag or a TLV required by the profile is missing.
    Profile,
    /// More signatures than the limits allow in a second; not checked.
    Flood,
    /// All 48-bit sequence numbers of this key are used: nothing is sent.
    SequenceUsedUp,
}

impl fmt::Display for DropReason {
    /// Formats the name used in logs and counters.
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

/// Number of unused packets, by reason.
#[derive(Clone, Debug, Default)]
pub struct Drops(std::collections::HashMap<DropReason, u64>);

impl Drops {
    /// Counts `report` if it is a drop.
    pub fn record(&mut self, report: &Report) {
        if let Report::Dropped { reason, .. } = report {
            *self.0.entry(*reason).or_default() += 1;
        }
    }

    /// Returns the number of packets dropped for `reason`.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }
}
