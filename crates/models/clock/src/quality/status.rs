//! Status of a reading of a timeline.

use core::fmt;

/// State of a timeline at the time of a reading. The *reader* derives it from the age of the
/// published data, so that a good status does not outlive the daemon that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum Status {
    /// No source has ever answered; there is no interval.
    NeverSynchronised = 0,
    /// Sources answer, and the interval is recent.
    Ok = 1,
    /// No source has answered for a long time. The interval grows with the oscillator's maximum
    /// error, until its time to live has passed; after that there is no interval.
    SourceLost = 2,
    /// The daemon that maintains the timeline has stopped refreshing its data. The interval grows
    /// as with [`Self::SourceLost`].
    DaemonDead = 3,
    /// The local clock is not the one that was synchronised (a step, suspend, migration, a counter
    /// that went backwards), or sources contradict each other. There is no interval, because no
    /// width would be right.
    Disrupted = 4,
    /// Sources answer, but none of them is authenticated, and the timeline demands authentication.
    /// There is no interval.
    Unauthenticated = 5,
}

impl Status {
    /// All statuses, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::NeverSynchronised,
        Self::Ok,
        Self::SourceLost,
        Self::DaemonDead,
        Self::Disrupted,
        Self::Unauthenticated,
    ];

    /// Returns the status with this number, as stored in shared memory; `None` for unknown numbers.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns true if a reading with this status may have an interval.
    pub fn may_have_interval(self) -> bool {
        matches!(self, Self::Ok | Self::SourceLost | Self::DaemonDead)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverSynchronised => "never synchronised",
            Self::Ok => "ok",
            Self::SourceLost => "source lost",
            Self::DaemonDead => "daemon dead",
            Self::Disrupted => "disrupted",
            Self::Unauthenticated => "unauthenticated",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for status in Status::ALL {
            assert_eq!(Status::from_number(status as u8), Some(status));
        }
        assert_eq!(Status::from_number(6), None);
    }
}
