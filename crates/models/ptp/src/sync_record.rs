//! What a slave knows of one Sync when its fate is known.
//!
//! Exact integers throughout: instants in nanoseconds of the clock that stamps,
//! lengths in the 2^-16 ns of a correction. Whoever writes logs or feeds formats
//! this record and adds nothing of its own to it: what became of a Sync is
//! decided here and nowhere else.

use timeloom_wire::tlv::Signer;
use timeloom_wire::{ClockIdentity, PortIdentity, SyncVerdict, TimeInterval, Timestamp};

use crate::Stamp;
use crate::security::{Reason, Suspect};

/// One Sync from its arrival to its verdict. What is `None` never became known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncRecord {
    /// Whose Sync it claims to be.
    pub source: PortIdentity,
    /// Its `sequenceId`.
    pub sequence: u16,
    /// When it arrived, by the clock that stamps.
    pub arrival: Option<Stamp>,
    /// When it left the grandmaster, by the grandmaster.
    pub origin: Option<Timestamp>,
    /// Corrections of Sync and Follow_Up.
    pub correction: Option<TimeInterval>,
    /// What each hop added and answers for, from the grandmaster on.
    pub hops: Vec<HopRecord>,
    /// Slave − master.
    pub offset: Option<TimeInterval>,
    /// Delay of the ingress link (peer to peer) or of the path (end to end).
    pub path_delay: Option<TimeInterval>,
    /// What became of it.
    pub verdict: SyncVerdict,
    /// What is wrong with it, and between whom.
    pub failures: Vec<(Reason, Suspect)>,
}

/// One hop's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopRecord {
    /// Who, as the hop says it.
    pub signer: Signer,
    /// Who, when the key ring knows the signer.
    pub clock: Option<ClockIdentity>,
    /// Port the Sync came in by.
    pub ingress: u8,
    /// Port it left by.
    pub egress: u8,
    /// What it added to the correction.
    pub contribution: TimeInterval,
    /// Whether that can be believed.
    pub verdict: HopVerdict,
}

/// What a hop's signature is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopVerdict {
    /// Its signature holds.
    Holds,
    /// It is one end of the link where the chain broke.
    Suspect,
    /// It signed upstream of the broken link: nothing was shown.
    Unproven,
}

impl HopVerdict {
    /// As logs have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Suspect => "suspect",
            Self::Unproven => "unproven",
        }
    }
}

impl SyncRecord {
    pub(crate) const fn new(source: PortIdentity, sequence: u16) -> Self {
        Self {
            source,
            sequence,
            arrival: None,
            origin: None,
            correction: None,
            hops: Vec::new(),
            offset: None,
            path_delay: None,
            verdict: SyncVerdict::Incomplete,
            failures: Vec::new(),
        }
    }
}
