//! A slave's report about one Sync, made when its processing has ended.
//!
//! The report contains the [`SyncRecord`], the source of the Sync, its hops and its failures. The
//! writers of logs and feeds format the report and add nothing to it.

use timeloom_wire::tlv::Signer;
use timeloom_wire::{ClockIdentity, PortIdentity, SyncRecord, TimeInterval};

use crate::security::{Suspect, ViolationKind};

/// Report about one Sync, with all data that became known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReport {
    /// Source that the Sync claims.
    pub source: PortIdentity,
    /// Measurement and verdict.
    pub record: SyncRecord,
    /// Signed contributions of the hops, from the grandmaster on.
    pub hops: Vec<HopRecord>,
    /// Violations in connection with this Sync, each with its place.
    pub failures: Vec<(ViolationKind, Suspect)>,
}

/// Contribution of one hop, and the trust in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopRecord {
    /// Signer as given in the hop's entry.
    pub signer: Signer,
    /// Clock identity of the signer; `None` if the key ring does not contain the signer.
    pub clock: Option<ClockIdentity>,
    /// Port by which the Sync arrived at the hop.
    pub ingress: u8,
    /// Port by which the Sync left the hop.
    pub egress: u8,
    /// Contribution of the hop to the correction.
    pub contribution: TimeInterval,
    /// Trust in the contribution, which follows from the signatures.
    pub verdict: HopVerdict,
}

/// Trust in a hop's contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopVerdict {
    /// The hop's signature is valid.
    Holds,
    /// The hop is at one end of the link where the chain of valid signatures ends.
    Suspect,
    /// The hop is upstream of that link, so its signature proves nothing.
    Unproven,
}

impl HopVerdict {
    /// Returns the word for this verdict in logs.
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
