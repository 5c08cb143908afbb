//! Conversion of past local stamps.

use core::fmt;
use std::collections::VecDeque;

use timeloom_time::Instant;

use super::Segment;
use crate::Core;
use crate::quality::Stamp;

/// Past segments, so that an earlier stamp of the local clock (from a driver, a capture, another
/// process) can be converted to the timeline's time as it was known *then*.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    segments: VecDeque<Segment>,
}

/// Reason why a past stamp of the local clock cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastError {
    /// The stamp is older than the history: before the first synchronisation, before the last
    /// disturbance, or too long ago.
    TooOld {
        /// Earliest instant that can be converted, if any.
        oldest: Option<Instant<Core>>,
    },
    /// The stamp is in the future of the local clock.
    InFuture,
}

impl fmt::Display for PastError {
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

impl std::error::Error for PastError {}

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

    /// Returns the stamp that a reader would have got at `core`.
    pub(super) fn read(&self, core: Instant<Core>) -> Result<Stamp, PastError> {
        let after = self
            .segments
            .partition_point(|segment| segment.origin.core <= core);
        let Some(segment) = after.checked_sub(1).map(|index| &self.segments[index]) else {
            let oldest = self.segments.front().map(|segment| segment.origin.core);
            return Err(PastError::TooOld { oldest });
        };
        let status = segment.status_at(core);
        Ok(if core > segment.void_after {
            Stamp::void(segment.timeline, status)
        } else {
            Stamp::new(segment.timeline, status, segment.interval_at(core))
        })
    }
}

/// Number of segments kept: over an hour, at one segment a second.
const KEPT: usize = 4096;
