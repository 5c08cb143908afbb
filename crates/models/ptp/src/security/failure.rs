//! Violations of signed messages, and their places.

use std::fmt;

use timeloom_wire::{ClockIdentity, PortIdentity};

/// A violation that a clock noticed while it checked a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationFailure {
    /// Clock that noticed the violation.
    pub observer: ClockIdentity,
    /// Source that the message claims.
    pub source: PortIdentity,
    /// `sequenceId` of the message.
    pub sequence: u16,
    /// Kind of violation.
    pub reason: ViolationKind,
    /// Place of the violation, as far as it is known.
    pub suspect: Suspect,
}

/// Place of a violation: one of two neighbouring clocks, or the wire between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Clock at the upstream end; `None` if the place may be anywhere upstream of `before`.
    pub after: Option<ClockIdentity>,
    /// Clock at the downstream end.
    pub before: ClockIdentity,
}

impl Suspect {
    /// Returns true if `clock` is at either end.
    pub fn names(&self, clock: ClockIdentity) -> bool {
        self.after == Some(clock) || self.before == clock
    }
}

/// Kind of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViolationKind {
    /// A clock that must sign sent a message without a signed TLV.
    Unsigned,
    /// The signed TLV is not the last TLV, or is malformed.
    Malformed,
    /// The suite differs from the key ring's.
    Suite,
    /// The keys' epoch is not in force.
    Epoch,
    /// A signer is not in the key ring.
    UnknownSigner,
    /// The source is not permitted to be grandmaster.
    NotAuthorised,
    /// The sequence number was used before, or is too old.
    Replay,
    /// A second Sync arrived with a known sequence number and nonce.
    DuplicateSync,
    /// A Sync does not contain the grandmaster's nonce.
    SpoofedSync,
    /// The correction is not the sum of the hops' contributions.
    Correction,
    /// The contribution of a hop exceeds the limits.
    Contribution,
    /// A clock occurs twice in the path, or the last hop is not the neighbour.
    Path,
    /// The path has more hops than the limits permit.
    TooLong,
    /// A signature is invalid.
    Signature,
    /// A hop received a broken chain, and restarted it to report that.
    Restarted,
    /// A hop could not sign.
    Incomplete,
    /// A clock's statement did not arrive on the second network in time.
    Missing,
    /// A peer-delay message is not signed by its sender.
    Pdelay,
    /// An Announce is not signed by its sender.
    Announce,
    /// The arrival of a Sync differs from the prediction by the clock's own history: a delay was
    /// added or removed upstream.
    Delayed,
    /// Too many invalid messages arrived, and some were not checked.
    Flood,
}

impl fmt::Display for ViolationKind {
    /// Formats the reason in one or two words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsigned => "unsigned",
            Self::Malformed => "malformed",
            Self::Suite => "suite",
            Self::Epoch => "epoch",
            Self::UnknownSigner => "unknown signer",
            Self::NotAuthorised => "not authorised",
            Self::Replay => "replay",
            Self::DuplicateSync => "duplicate Sync",
            Self::SpoofedSync => "spoofed Sync",
            Self::Correction => "correction",
            Self::Contribution => "contribution",
            Self::Path => "path",
            Self::TooLong => "too long",
            Self::Signature => "signature",
            Self::Restarted => "restarted",
            Self::Incomplete => "incomplete",
            Self::Missing => "missing",
            Self::Pdelay => "pdelay",
            Self::Announce => "announce",
            Self::Delayed => "delayed",
            Self::Flood => "flood",
        })
    }
}
