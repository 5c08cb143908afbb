//! Measurement and verdict of a slave for one Sync.
//!
//! The model of a slave emits it, the evidence log and the feed of a timeline format it, and a
//! timeline evaluates it; this type is their common part. Exact integers throughout, so that
//! nothing is rounded on the way.
//!
//! The sender of the Sync, the hops that signed it and its faults are not here: the model has them
//! by identity, a log by name, and a feed counts them.

use crate::{Stamp, SyncVerdict, TimeInterval, Timestamp};

/// A Sync from its arrival to its verdict. A `None` value never became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRecord {
    /// `sequenceId` of the Sync.
    pub sequence: u16,
    /// Arrival time, by the timestamping clock.
    pub arrival: Option<Stamp>,
    /// Departure time at the grandmaster, by the grandmaster.
    pub origin: Option<Timestamp>,
    /// Corrections of Sync and Follow_Up.
    pub correction: Option<TimeInterval>,
    /// Delay of the ingress link (peer to peer) or of the path (end to end).
    pub path_delay: Option<TimeInterval>,
    /// Slave − master.
    pub offset: Option<TimeInterval>,
    /// Verdict on the Sync.
    pub verdict: SyncVerdict,
}

impl SyncRecord {
    /// Returns the record of a Sync of which nothing else is known yet.
    pub const fn new(sequence: u16) -> Self {
        Self {
            sequence,
            arrival: None,
            origin: None,
            correction: None,
            path_delay: None,
            offset: None,
            verdict: SyncVerdict::Incomplete,
        }
    }
}
