//! Violations and their places.

use std::fmt;

use timeloom_wire::{ClockIdentity, PortIdentity};

/// A violation of authenticated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Clock that noticed it.
    pub observer: ClockIdentity,
    /// Claimed source of the time.
    pub source: PortIdentity,
    /// Number of the message.
    pub sequence: u16,
    /// Kind of violation.
    pub reason: Reason,
    /// Place of the violation.
    pub suspect: Suspect,
}

/// The two clocks between which it happened: one of them, or the wire between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Upstream end; `None` if it may be anything upstream.
    pub after: Option<ClockIdentity>,
    /// Downstream end.
    pub before: ClockIdentity,
}

impl Suspect {
    /// Returns true if `clock` is one of the two ends.
    pub fn names(&self, clock: ClockIdentity) -> bool {
        self.after == Some(clock) || self.before == clock
    }
}

/// Kind of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A message without a signed TLV from a clock that must sign.
    Unsigned,
    /// The TLV is not the last, or not well formed.
    Malformed,
    /// A suite other than the key ring's.
    Suite,
    /// Keys of an invalid epoch.
    Epoch,
    /// A signer that is not in the key ring.
    UnknownSigner,
    /// The source is not allowed to act as grandmaster.
    NotAuthorised,
    /// A sequence number that was used before, or is too old.
    Replay,
    /// A second Sync with a known sequence number and nonce.
    DuplicateSync,
    /// A Sync without the grandmaster's nonce.
    SpoofedSync,
    /// The correction is not the sum of the hops' contributions.
    Correction,
    /// A hop's contribution is outside the limits.
    Contribution,
    /// A clock twice in the path, or a last hop that is not the neighbour.
    Path,
    /// More hops than the limits allow.
    TooLong,
    /// An invalid signature.
    Signature,
    /// A hop received a broken chain, and restarted it to report this.
    Restarted,
    /// A hop could not sign.
    Incomplete,
    /// A clock's statement did not arrive on the secondary channel in time.
    Missing,
    /// A peer-delay message that its sender did not sign.
    Pdelay,
    /// An Announce that its sender did not sign.
    Announce,
    /// Arrival differs from the prediction of the clock's own history: a delay was added or removed
    /// upstream.
    Delayed,
    /// Too many invalid messages; some were not checked.
    Flood,
}

impl fmt::Display for Reason {
    /// Formats it in a word or two.
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
