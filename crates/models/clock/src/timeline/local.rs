//! Readings of the local machine, and disturbances of its clock that they reveal.

use core::fmt;

use timeloom_time::{Duration, Instant, Wall};

use crate::{Core, RateError};

/// All readings of the local machine at one moment. The core clock is read last, because a change
/// of the marker after that reading would be detected only at the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalNow {
    /// Reading of the core clock.
    pub core: Instant<Core>,
    /// Value that changes when the machine is migrated or restored from a snapshot (vmclock's
    /// `disruption_marker` and `vm_generation_counter`). It is constant without a hypervisor that
    /// reports such changes.
    pub marker: u64,
    /// Time spent in suspend since boot (CLOCK_BOOTTIME minus CLOCK_MONOTONIC).
    pub suspended: Duration,
    /// Reading of another clock of the machine, on a different counter; `None` if it is not read.
    /// If either clock is stepped, the two disagree.
    pub witness: Option<Instant<Wall>>,
}

/// Reason for which the local clock is not the one that was synchronised, or for which the sources
/// cannot be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The machine was migrated or restored from a snapshot.
    Migrated,
    /// The machine was suspended.
    Suspended,
    /// The core clock showed less than at an earlier reading.
    CounterBackwards,
    /// The core clock and the witness disagree: one of the two was stepped.
    Stepped,
    /// The system clock was set, and it is the timeline's source.
    SystemClockSet,
    /// More sources contradict each other than are permitted to be wrong.
    SourcesDisagree,
    /// The sources' present answers cannot follow from their earlier answers with this oscillator.
    /// An answer is wrong, or the oscillator is out of its specification.
    Contradiction,
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Migrated => "the machine was migrated or restored",
            Self::Suspended => "the machine was suspended",
            Self::CounterBackwards => "the local counter went backwards",
            Self::Stepped => "the local clock was stepped",
            Self::SystemClockSet => "the system clock was set",
            Self::SourcesDisagree => "too many sources contradict each other",
            Self::Contradiction => "sources contradict what they said before",
        })
    }
}

/// Differences up to these limits are not a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// Greatest difference between the core clock's readings on two cores. A reading that is less
    /// than the segment's start by no more than this does not mean that the counter went backwards.
    pub backwards: Duration,
    /// Precision of the time in suspend.
    pub suspended: Duration,
    /// Precision of the witness, which is read shortly before the core clock.
    pub witness: Duration,
    /// Greatest rate difference between witness and core clock.
    pub witness_rate: RateError,
}

impl Default for WatchLimits {
    /// Returns the limits 1 µs between cores, 1 ms for the time in suspend and for the witness, and
    /// 200 ppm.
    fn default() -> Self {
        Self {
            backwards: Duration::from_us(1),
            suspended: Duration::from_ms(1),
            witness: Duration::from_ms(1),
            witness_rate: RateError::from_ppb(200_000),
        }
    }
}

impl LocalNow {
    /// Returns the disturbance that happened between the readings `self` and `now`, if any.
    pub fn disturbance_until(&self, now: &Self, limits: &WatchLimits) -> Option<Disturbance> {
        if now.marker != self.marker {
            return Some(Disturbance::Migrated);
        }
        if absolute(now.suspended - self.suspended) > limits.suspended {
            return Some(Disturbance::Suspended);
        }
        let core = now.core - self.core;
        if core < -limits.backwards {
            return Some(Disturbance::CounterBackwards);
        }
        if let (Some(before), Some(after)) = (self.witness, now.witness) {
            let allowed = limits.witness + limits.witness_rate.over_up(absolute(core));
            if absolute(core - (after - before)) > allowed {
                return Some(Disturbance::Stepped);
            }
        }
        None
    }
}

fn absolute(length: Duration) -> Duration {
    length.max(-length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disturbance_is_told_from_the_others_and_from_nothing() {
        let before = LocalNow {
            core: Instant::from_ns(1_000_000_000),
            marker: 4,
            suspended: Duration::ZERO,
            witness: Some(Instant::from_ns(0)),
        };
        let second = Duration::from_s(1);
        let after = LocalNow {
            core: before.core + second,
            witness: Some(Instant::from_ns(1_000_100_000)),
            ..before
        };
        let limits = WatchLimits::default();
        let check = |now: LocalNow| before.disturbance_until(&now, &limits);
        assert_eq!(check(after), None);
        assert_eq!(
            check(LocalNow { marker: 5, ..after }),
            Some(Disturbance::Migrated)
        );
        assert_eq!(
            check(LocalNow {
                suspended: second,
                ..after
            }),
            Some(Disturbance::Suspended)
        );
        let back = LocalNow {
            core: before.core - second,
            ..after
        };
        assert_eq!(check(back), Some(Disturbance::CounterBackwards));
        let stepped = LocalNow {
            core: after.core + Duration::from_ms(2),
            ..after
        };
        assert_eq!(check(stepped), Some(Disturbance::Stepped));
    }
}
