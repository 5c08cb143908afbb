//! What a clock has to say about itself.

use std::fmt;

use timeloom_wire::{ClockIdentity, ParseError, PortIdentity, TimeInterval};

use crate::security::Failure;
use crate::{PortState, SyncReport};

/// Something worth a record. Nothing depends on anybody reading it.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A slave measured its offset (slave − master).
    Offset {
        /// Of which master.
        master: PortIdentity,
        /// Of which Sync.
        sequence: u16,
        /// Slave − master.
        offset: TimeInterval,
        /// Delay of the ingress link (peer to peer) or of the path (end to end).
        delay: TimeInterval,
        /// Whether every hop's signature was verified.
        authenticated: bool,
    },
    /// A port measured its link.
    PeerDelay {
        /// Which port.
        port: u16,
        /// To whom.
        neighbour: PortIdentity,
        /// Mean delay of the link.
        delay: TimeInterval,
        /// The neighbour's clock against this one, in parts per billion.
        rate_ppb: f64,
    },
    /// A transparent clock handed on a Sync and what it cost.
    Relayed {
        /// In by.
        ingress: u16,
        /// Out by.
        egress: u16,
        /// Of which Sync.
        sequence: u16,
        /// Time spent in this clock, in the grandmaster's units.
        residence: TimeInterval,
    },
    /// A port of an ordinary clock changed its state.
    State {
        /// The state entered.
        state: PortState,
        /// The grandmaster followed, when slave.
        grandmaster: Option<ClockIdentity>,
    },
    /// A packet was not used.
    Dropped {
        /// Where it came in.
        port: u16,
        /// Why.
        reason: DropReason,
    },
    /// Authenticated time was violated, and by whom as far as can be known.
    Failure {
        /// What, and where.
        failure: Failure,
        /// Whether the record of its Sync will say so, too.
        in_record: bool,
    },
    /// The fate of a Sync is known. Every Sync that a slave receives is told
    /// once, also of masters that it does not follow.
    Sync(Box<SyncReport>),
}

/// Why a packet was not used, although nobody need have meant harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Not a message.
    Malformed(u8),
    /// Another domain or `sdoId`.
    Domain,
    /// A version of PTP nobody knows.
    Version,
    /// An event message without an ingress stamp.
    NoStamp,
    /// The departure's stamp was lost; no Follow_Up is sent, the port lives on.
    LostStamp,
    /// Too many Syncs wait for their Follow_Ups.
    QueueFull,
    /// A Sync whose Follow_Up did not come, or the other way round.
    Unmatched,
    /// Residence below zero or absurd: the clock was stepped in between.
    Residence,
    /// Not a message for this kind of clock.
    NotForUs,
    /// A signed message cannot be sent: the next hop is not known yet.
    NoNextHop,
    /// The profile asks for a tag or a TLV that is missing.
    Profile,
    /// More signatures than the limits allow in a second; not looked at.
    Flood,
    /// All 48-bit sequence numbers of this key are used up: nothing is sent.
    SequenceUsedUp,
}

impl fmt::Display for DropReason {
    /// As logs and counters have it.
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

/// How many packets a clock did not use, by reason.
#[derive(Clone, Debug, Default)]
pub struct Drops(std::collections::HashMap<DropReason, u64>);

impl Drops {
    /// Adds `report` if it is a drop.
    pub fn record(&mut self, report: &Report) {
        if let Report::Dropped { reason, .. } = report {
            *self.0.entry(*reason).or_default() += 1;
        }
    }

    /// Packets dropped for `reason`.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }
}
