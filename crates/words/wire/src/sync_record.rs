//! A slave's measurement and verdict for one Sync.
//!
//! The model of a slave emits the record, the evidence log and a timeline's feed format it, and a
//! timeline evaluates it; all of them share this type. Every value is an exact integer, so that no
//! step rounds it.
//!
//! The record does not contain the sender of the Sync, the hops that signed it, or its faults: the
//! model identifies these by clock identity, a log by name, and a feed only counts them.

use crate::{Stamp, SyncVerdict, TimeInterval, Timestamp};

/// Record of one Sync, from its arrival to the slave's verdict. A field that is `None` was never
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRecord {
    /// `sequenceId` of the Sync.
    pub sequence: u16,
    /// Arrival time at the slave, by the slave's timestamping clock.
    pub arrival: Option<Stamp>,
    /// Departure time from the grandmaster, by the grandmaster's clock.
    pub origin: Option<Timestamp>,
    /// Sum of the `correctionField`s of the Sync and its Follow_Up.
    pub correction: Option<TimeInterval>,
    /// Measured delay: of the ingress link (peer-to-peer mechanism), or of the whole path
    /// (end-to-end).
    pub path_delay: Option<TimeInterval>,
    /// Slave's clock minus master's clock.
    pub offset: Option<TimeInterval>,
    /// The slave's verdict on the Sync.
    pub verdict: SyncVerdict,
}

impl SyncRecord {
    /// Returns the record of a Sync with its sequence number and nothing else known.
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
