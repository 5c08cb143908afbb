//! What was violated, and where.

use std::fmt;

use timeloom_wire::{ClockIdentity, PortIdentity};

/// Authenticated time was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Who noticed.
    pub observer: ClockIdentity,
    /// Whose time it was meant to be.
    pub source: PortIdentity,
    /// Of which message.
    pub sequence: u16,
    /// What is wrong.
    pub reason: Reason,
    /// Where it happened.
    pub suspect: Suspect,
}

/// Between which clocks it happened: one of the two, or the wire between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The upstream end; `None` when it may be anything upstream.
    pub after: Option<ClockIdentity>,
    /// The downstream end.
    pub before: ClockIdentity,
}

impl Suspect {
    /// Whether `clock` is one of the two ends.
    pub fn names(&self, clock: ClockIdentity) -> bool {
        self.after == Some(clock) || self.before == clock
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A message of a clock that must sign has no signed TLV.
    Unsigned,
    /// The TLV is not the last, or not well formed.
    Malformed,
    /// Another suite than the key ring says.
    Suite,
    /// Keys of an epoch that is not valid.
    Epoch,
    /// A signer that the key ring does not know.
    UnknownSigner,
    /// The source may not be grandmaster.
    NotAuthorised,
    /// A sequence number used before, or too old.
    Replay,
    /// A second Sync with a sequence number and nonce already seen.
    DuplicateSync,
    /// A Sync that the grandmaster's nonce does not belong to.
    SpoofedSync,
    /// The correction is not the sum of what the hops answer for.
    Correction,
    /// A hop's contribution is outside the limits.
    Contribution,
    /// A clock twice in the path, or a last hop that is not the neighbour.
    Path,
    /// More hops than the limits allow.
    TooLong,
    /// A signature does not hold.
    Signature,
    /// A hop received a broken chain, and started it anew to say so.
    Restarted,
    /// A hop could not sign.
    Incomplete,
    /// A clock's statement did not come by the secondary channel in time.
    Missing,
    /// A peer-delay message that its sender did not sign.
    Pdelay,
    /// An Announce that its sender did not sign.
    Announce,
    /// Arrival differs from what the clock's own past predicts: a delay was
    /// put in, or taken away, upstream.
    Delayed,
    /// Too many messages that do not hold; some were not looked at.
    Flood,
}

impl fmt::Display for Reason {
    /// In a word or two.
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
