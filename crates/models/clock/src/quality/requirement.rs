//! Requirement of a program on the quality of a timeline.

use core::fmt;

use timeloom_time::Duration;

use super::Stamp;
use super::Status;

/// Required quality of a binding (QuartzV's `timequality_t`): the greatest distance of true time
/// from the estimate, to either side, and the greatest step of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Greatest distance from the earliest possible true time to the estimate.
    pub below: Duration,
    /// Greatest distance from the estimate to the latest possible true time.
    pub above: Duration,
    /// Greatest step between two different readings of the clock.
    pub resolution: Duration,
}

/// Reason for which a reading does not meet a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The reading has no interval, for this reason.
    Void(Status),
    /// The interval is too wide. If `status` is not [`Status::Ok`], it is the cause.
    TooWide {
        /// Status of the reading.
        status: Status,
        /// Distance from the earliest possible true time to the estimate.
        below: Duration,
        /// Distance from the estimate to the latest possible true time.
        above: Duration,
    },
}

impl Requirement {
    /// Returns a requirement of `accuracy` to both sides, and of a step of at most one nanosecond.
    pub fn within(accuracy: Duration) -> Self {
        Self {
            below: accuracy,
            above: accuracy,
            resolution: accuracy,
        }
    }

    /// Returns the smaller of the two distances.
    pub fn accuracy(&self) -> Duration {
        self.below.min(self.above)
    }

    /// Returns the reason for which `stamp` does not meet the requirement; `None` if it does.
    pub fn shortfall(&self, stamp: &Stamp) -> Option<Shortfall> {
        let Some(interval) = stamp.interval() else {
            return Some(Shortfall::Void(stamp.status()));
        };
        let (below, above) = (interval.below(), interval.above());
        if below <= self.below && above <= self.above {
            return None;
        }
        Some(Shortfall::TooWide {
            status: stamp.status(),
            below,
            above,
        })
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Void(status) => write!(f, "no interval: {status}"),
            Self::TooWide {
                status,
                below,
                above,
            } => {
                write!(f, "the interval is −{below} +{above} ({status})")
            }
        }
    }
}
