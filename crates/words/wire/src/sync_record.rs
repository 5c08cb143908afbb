//! What a slave measured of one Sync, and what became of it.
//!
//! The model of a slave emits it, the evidence log and the feed of a timeline
//! format it, and a timeline judges it: what they have in common is said here
//! alone. Exact integers throughout, so that nothing is rounded on the way.
//!
//! Whose Sync it is, which hops vouch for it and what is wrong with it is not
//! here: the model knows those by identity, a log by name, and a feed counts them.

use crate::{Stamp, SyncVerdict, TimeInterval, Timestamp};

/// One Sync from its arrival to its verdict. What is `None` never became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRecord {
    /// Its `sequenceId`.
    pub sequence: u16,
    /// When it arrived, by the clock that stamps.
    pub arrival: Option<Stamp>,
    /// When it left the grandmaster, by the grandmaster.
    pub origin: Option<Timestamp>,
    /// Corrections of Sync and Follow_Up.
    pub correction: Option<TimeInterval>,
    /// Delay of the ingress link (peer to peer) or of the path (end to end).
    pub path_delay: Option<TimeInterval>,
    /// Slave − master.
    pub offset: Option<TimeInterval>,
    /// What became of it.
    pub verdict: SyncVerdict,
}

impl SyncRecord {
    /// Of a Sync of which nothing else is known yet.
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
