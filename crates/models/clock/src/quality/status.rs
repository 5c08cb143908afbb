//! Status of a reading.

use core::fmt;

/// State of a timeline at a reading. Derived by the *reader* from the age of the data, so that a
/// dead writer cannot leave a good status behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Status {
    /// No source has ever answered. There is no interval.
    NeverSynchronised = 0,
    /// Sources answer and the interval is fresh.
    Ok = 1,
    /// No source has answered for long. The interval grows with the oscillator's stated error until
    /// its time to live is over; then it is void.
    SourceLost = 2,
    /// The daemon that keeps the timeline has given no sign of life. The interval grows as with
    /// [`Self::SourceLost`].
    DaemonDead = 3,
    /// The local clock is not the one that was synchronised (a step, suspend,
    /// migration, a counter that went backwards), or sources contradict each
    /// other. There is no interval, because no width would be right.
    Disrupted = 4,
    /// Sources answer, but none is authenticated and the timeline demands that. There is no
    /// interval.
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

    /// Returns the status of this number in a shared-memory layout.
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
