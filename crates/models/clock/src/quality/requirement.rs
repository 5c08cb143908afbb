//! What a program needs of a timeline.

use core::fmt;

use timeloom_time::Duration;

use super::Stamp;
use super::Status;

/// The quality that a binding asks for (QuartzV's `timequality_t`): how far
/// true time may lie to either side of the estimate, and how fine the steps of
/// the clock must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Most that true time may lie before the estimate.
    pub below: Duration,
    /// Most that true time may lie after the estimate.
    pub above: Duration,
    /// Coarsest step of the clock that will do.
    pub resolution: Duration,
}

/// Why a requirement is not met at a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// There is no interval, for this reason.
    Void(Status),
    /// The interval is too wide. When the status is not `Ok`, that is why.
    TooWide {
        /// The timeline's status.
        status: Status,
        /// How far true time may lie before the estimate.
        below: Duration,
        /// How far true time may lie after the estimate.
        above: Duration,
    },
}

impl Requirement {
    /// Symmetric accuracy and nanosecond resolution or better.
    pub fn within(accuracy: Duration) -> Self {
        Self {
            below: accuracy,
            above: accuracy,
            resolution: accuracy,
        }
    }

    /// The tighter of the two sides.
    pub fn accuracy(&self) -> Duration {
        self.below.min(self.above)
    }

    /// How `stamp` falls short of the requirement; `None` when it meets it.
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
