//! Counts of events in a simulated world.

use core::fmt;

use timeloom_time::Duration;

use super::FaultKind;
use crate::quality::Status;
use crate::quality::{Shortfall, Stamp};

/// Counts over a run, which show that the test was not vacuous.
#[derive(Clone, Debug, Default)]
pub struct WorldCounts {
    /// Number of reads by status; the index is the number of the [`Status`].
    pub by_status: [u64; Status::ALL.len()],
    /// Number of reads that had an interval.
    pub with_interval: u64,
    /// Number of reads with an interval of at most [`NARROW`].
    pub narrow: u64,
    /// Sum of the widths of all intervals, in nanoseconds.
    pub width_sum_ns: u128,
    /// Sum of the absolute differences between estimate and true time, in nanoseconds.
    pub error_sum_ns: u128,
    /// Width of the narrowest interval; `None` if no read had one.
    pub narrowest: Option<Duration>,
    /// Number of faults by kind; the index is [`FaultKind::kind`].
    pub faults: [u64; FaultKind::KINDS],
    /// Number of queries sent to sources.
    pub questions: u64,
    /// Number of answers that the estimator rejected.
    pub refused: u64,
    /// Number of times that the timeline was lost.
    pub disturbed: u64,
    /// Number of transitions of a binding to "not met".
    pub violated: u64,
    /// Number of transitions of a binding to "met".
    pub restored: u64,
    /// Reason of the last transition to "not met".
    pub last_shortfall: Option<Shortfall>,
}

/// Width up to which an interval counts as informative, even behind the worst of the paths. (With
/// one correct and one wrong source and one tolerated wrong source, the interval is as wide as the
/// error: correct, but of little use.)
pub const NARROW: Duration = Duration::from_ms(500);

/// Read whose interval does not contain true time; ends a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainmentViolation {
    /// Seed that reproduces the world.
    pub seed: u64,
    /// Number of the read, from 0.
    pub read: u64,
    /// Stamp that the read returned.
    pub stamp: Stamp,
    /// True time of the read, in picoseconds since the timeline's zero.
    pub true_ps: i128,
}

impl fmt::Display for ContainmentViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            read,
            stamp,
            true_ps,
        } = self;
        write!(
            f,
            "world of seed {seed}, read {read}: true time is {true_ps} ps, not in {stamp:?}"
        )
    }
}

impl WorldCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.by_status.iter_mut().zip(other.by_status);
        pairs
            .chain(self.faults.iter_mut().zip(other.faults))
            .for_each(|(a, b)| *a += b);
        self.with_interval += other.with_interval;
        self.narrow += other.narrow;
        self.error_sum_ns += other.error_sum_ns;
        self.width_sum_ns += other.width_sum_ns;
        self.narrowest = [self.narrowest, other.narrowest]
            .into_iter()
            .flatten()
            .min();
        self.questions += other.questions;
        self.refused += other.refused;
        self.disturbed += other.disturbed;
        self.violated += other.violated;
        self.restored += other.restored;
        self.last_shortfall = other.last_shortfall.or(self.last_shortfall);
    }

    /// Returns the number of reads.
    pub fn reads(&self) -> u64 {
        self.by_status.iter().sum()
    }

    pub(super) fn count(&mut self, stamp: &Stamp, true_ns: i64) {
        self.by_status[stamp.status() as usize] += 1;
        if let Some(interval) = stamp.interval() {
            self.with_interval += 1;
            self.error_sum_ns += u128::from(interval.estimate().as_ns().abs_diff(true_ns));
            self.narrow += u64::from(interval.width() <= NARROW);
            self.width_sum_ns += u128::from(interval.width().as_ns().unsigned_abs());
            self.narrowest = Some(
                self.narrowest
                    .map_or(interval.width(), |w| w.min(interval.width())),
            );
        }
    }
}
