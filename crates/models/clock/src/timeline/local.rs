//! What a machine shows of itself, and what it tells about its clock.

use core::fmt;

use timeloom_time::{Duration, Instant, Wall};

use crate::{Core, RateError};

/// All that is read of the local machine at one moment, the core clock last:
/// a change of the marker that is seen after it would come too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalNow {
    /// The core clock.
    pub core: Instant<Core>,
    /// Changes whenever the machine was migrated or restored from a snapshot
    /// (vmclock's `disruption_marker` and `vm_generation_counter`); constant
    /// where there is no hypervisor to say so.
    pub marker: u64,
    /// How long the machine has been suspended since boot (CLOCK_BOOTTIME minus
    /// CLOCK_MONOTONIC).
    pub suspended: Duration,
    /// Another clock of the machine that does not hang on the same counter, if
    /// it is worth its cost; a step of either is seen as their disagreement.
    pub witness: Option<Instant<Wall>>,
}

/// Why the local clock is not the one that was synchronised, or the sources
/// cannot be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The machine was migrated or restored from a snapshot.
    Migrated,
    /// The machine was suspended.
    Suspended,
    /// The core clock showed less than it had shown.
    CounterBackwards,
    /// The core clock and the witness disagree: one of them was stepped.
    Stepped,
    /// The system clock, which is the timeline's source, was set.
    SystemClockSet,
    /// More sources contradict each other than may lie.
    SourcesDisagree,
    /// What the sources say now cannot follow from what they said before with
    /// this oscillator: one of the three broke its promise.
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

/// What is still no disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// How far two cores' views of the core clock may differ: a reading this
    /// little before the segment's start is not a counter gone backwards.
    pub backwards: Duration,
    /// How exactly the time in suspend can be read.
    pub suspended: Duration,
    /// How exactly the witness can be read beside the core clock.
    pub witness: Duration,
    /// How fast witness and core clock may drift apart.
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
    /// What happened to the machine from `self` to `now`, if anything.
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
