//! Local readings of a machine, and the disturbances that they reveal.

use core::fmt;

use timeloom_time::{Duration, Instant, Wall};

use crate::{Core, RateError};

/// All readings of the local machine at one moment, the core clock last: a change of the marker
/// after it would be seen too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalNow {
    /// Core clock.
    pub core: Instant<Core>,
    /// Value that changes if the machine was migrated or restored from a snapshot (vmclock's
    /// `disruption_marker` and `vm_generation_counter`); constant without a hypervisor that reports
    /// it.
    pub marker: u64,
    /// Time in suspend since boot (CLOCK_BOOTTIME minus CLOCK_MONOTONIC).
    pub suspended: Duration,
    /// Another clock of the machine, on a different counter, if it is worth its cost; a step of
    /// either shows as a disagreement of the two.
    pub witness: Option<Instant<Wall>>,
}

/// Reason why the local clock is not the one that was synchronised, or why the sources cannot be
/// right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The machine was migrated or restored from a snapshot.
    Migrated,
    /// The machine was suspended.
    Suspended,
    /// The core clock showed less than before.
    CounterBackwards,
    /// The core clock and the witness disagree: one of them was stepped.
    Stepped,
    /// The system clock, which is the timeline's source, was set.
    SystemClockSet,
    /// More sources contradict each other than may lie.
    SourcesDisagree,
    /// The sources' present answers cannot follow from their earlier ones with this oscillator: one
    /// of the three is out of specification.
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

/// Tolerances within which a change is no disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// Maximum difference of two cores' views of the core clock: a reading this little before the
    /// segment's start does not mean that the counter went backwards.
    pub backwards: Duration,
    /// Precision of the time in suspend.
    pub suspended: Duration,
    /// Precision of the witness, read beside the core clock.
    pub witness: Duration,
    /// Maximum relative drift of witness and core clock.
    pub witness_rate: RateError,
}

impl Default for WatchLimits {
    /// 1 µs between cores; 1 ms for the suspend time and the witness; 200 ppm.
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
    /// Returns the disturbance of the machine from `self` to `now`, if any.
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
