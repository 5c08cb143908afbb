//! A slave's report about one Sync, once its outcome is known.
//!
//! It contains the [`SyncRecord`] with the Sync's source, its hops and its failures. Log and feed
//! writers format it and add nothing: the outcome of a Sync is decided only here.

use timeloom_wire::tlv::Signer;
use timeloom_wire::{ClockIdentity, PortIdentity, SyncRecord, TimeInterval};

use crate::security::{Reason, Suspect};

/// One Sync with all known data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReport {
    /// Claimed source of the Sync.
    pub source: PortIdentity,
    /// Measurement and outcome.
    pub record: SyncRecord,
    /// Contribution of each hop that vouches for one, from the grandmaster on.
    pub hops: Vec<HopRecord>,
    /// Violations, with their places.
    pub failures: Vec<(Reason, Suspect)>,
}

/// One hop's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopRecord {
    /// Signer as claimed by the hop.
    pub signer: Signer,
    /// Clock of the signer, if the key ring knows it.
    pub clock: Option<ClockIdentity>,
    /// Ingress port of the Sync.
    pub ingress: u8,
    /// Egress port.
    pub egress: u8,
    /// Contribution to the correction.
    pub contribution: TimeInterval,
    /// Credibility of the contribution.
    pub verdict: HopVerdict,
}

/// Credibility of a hop's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopVerdict {
    /// Its signature is valid.
    Holds,
    /// It is one end of the link where the chain broke.
    Suspect,
    /// It signed upstream of the broken link: nothing is proven.
    Unproven,
}

impl HopVerdict {
    /// Returns the name used in logs.
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
