//! Conversion of past readings of the local clock.

use core::fmt;
use std::collections::VecDeque;

use timeloom_time::Instant;

use super::Segment;
use crate::Core;
use crate::quality::Stamp;

/// Past segments. They convert earlier readings of the local clock (from a driver, a capture,
/// another process) to the timeline, as it was known at the time of the reading.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    segments: VecDeque<Segment>,
}

/// Reason for which a past reading of the local clock cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryError {
    /// The reading is older than the history: before the first synchronisation, before the last
    /// disturbance, or too long ago.
    TooOld {
        /// Earliest reading of the core clock that can be converted, if any.
        oldest: Option<Instant<Core>>,
    },
    /// The reading is later than the local clock's present reading.
    InFuture,
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOld { oldest: Some(at) } => {
                write!(f, "nothing is known before {}", *at - Instant::ZERO)
            }
            Self::TooOld { oldest: None } => f.write_str("nothing is known of the past"),
            Self::InFuture => f.write_str("the stamp lies in the future"),
        }
    }
}

impl std::error::Error for HistoryError {}

impl History {
    pub(super) fn push(&mut self, segment: Segment) {
        self.segments.push_back(segment);
        if self.segments.len() > KEPT {
            self.segments.pop_front();
        }
    }

    pub(super) fn forget(&mut self) {
        self.segments.clear();
    }

    /// Returns the stamp that a reader would have got when the core clock showed `core`.
    pub(super) fn read(&self, core: Instant<Core>) -> Result<Stamp, HistoryError> {
        let after = self
            .segments
            .partition_point(|segment| segment.origin.core <= core);
        let Some(segment) = after.checked_sub(1).map(|index| &self.segments[index]) else {
            let oldest = self.segments.front().map(|segment| segment.origin.core);
            return Err(HistoryError::TooOld { oldest });
        };
        let status = segment.status_at(core);
        Ok(if core > segment.void_after {
            Stamp::void(segment.timeline, status)
        } else {
            Stamp::new(segment.timeline, status, segment.interval_at(core))
        })
    }
}

/// Number of segments kept: enough for an hour at one segment per second.
const KEPT: usize = 4096;
