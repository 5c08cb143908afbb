//! What a slave knows of one Sync when its fate is known.
//!
//! The [`SyncRecord`] with the Sync's source, its hops and its failures. Whoever
//! writes logs or feeds formats this and adds nothing of its own to it: what
//! became of a Sync is decided here and nowhere else.

use timeloom_wire::tlv::Signer;
use timeloom_wire::{ClockIdentity, PortIdentity, SyncRecord, TimeInterval};

use crate::security::{Reason, Suspect};

/// One Sync and what there is to say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReport {
    /// Whose Sync it claims to be.
    pub source: PortIdentity,
    /// What was measured of it, and what became of it.
    pub record: SyncRecord,
    /// What each hop added and answers for, from the grandmaster on.
    pub hops: Vec<HopRecord>,
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

impl SyncReport {
    pub(crate) const fn new(source: PortIdentity, sequence: u16) -> Self {
        Self {
            source,
            record: SyncRecord::new(sequence),
            hops: Vec::new(),
            failures: Vec::new(),
        }
    }
}
