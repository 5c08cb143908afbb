//! Requirement of a program on a timeline.

use core::fmt;

use timeloom_time::Duration;

use super::Stamp;
use super::Status;

/// Quality that a binding requires (QuartzV's `timequality_t`): the maximum distance of true time
/// to either side of the estimate, and the maximum step of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Maximum distance of true time before the estimate.
    pub below: Duration,
    /// Maximum distance of true time after the estimate.
    pub above: Duration,
    /// Maximum step of the clock.
    pub resolution: Duration,
}

/// Reason why a reading does not meet a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// There is no interval, for this reason.
    Void(Status),
    /// The interval is too wide. If the status is not `Ok`, that is the cause.
    TooWide {
        /// The timeline's status.
        status: Status,
        /// Maximum distance of true time before the estimate.
        below: Duration,
        /// Maximum distance of true time after the estimate.
        above: Duration,
    },
}

impl Requirement {
    /// Returns a requirement of symmetric accuracy and nanosecond resolution or better.
    pub fn within(accuracy: Duration) -> Self {
        Self {
            below: accuracy,
            above: accuracy,
            resolution: accuracy,
        }
    }

    /// Returns the tighter of the two sides.
    pub fn accuracy(&self) -> Duration {
        self.below.min(self.above)
    }

    /// Returns the shortfall of `stamp`; `None` if it meets the requirement.
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
