//! Bindings: requirements of programs on a timeline, and notifications when they are met or not.

use std::collections::BTreeMap;

use timeloom_time::{Duration, Instant};

use super::{Action, Segment};
use crate::Core;
use crate::quality::{Requirement, Stamp};

/// Number of a binding. An estimator never assigns the same number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingId(pub u64);

/// Error for a requirement that cannot be met, with the best values that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the requirement cannot be met; possible are ± {accuracy} in steps of {resolution}")]
pub struct UnmetRequirement {
    /// Best accuracy that sources and oscillator permit at the shortest polling interval.
    pub accuracy: Duration,
    /// Step of the clock.
    pub resolution: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Bindings {
    bound: BTreeMap<BindingId, Bindee>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bindee {
    requirement: Requirement,
    /// State that was last reported: true if met; `None` before the first report.
    met: Option<bool>,
}

impl Bindings {
    pub(super) fn add(&mut self, requirement: Requirement) -> BindingId {
        self.next += 1;
        let id = BindingId(self.next);
        self.bound.insert(
            id,
            Bindee {
                requirement,
                met: None,
            },
        );
        id
    }

    pub(super) fn remove(&mut self, id: BindingId) -> bool {
        self.bound.remove(&id).is_some()
    }

    pub(super) fn get(&self, id: BindingId) -> Option<Requirement> {
        self.bound.get(&id).map(|bindee| bindee.requirement)
    }

    pub(super) fn set(&mut self, id: BindingId, requirement: Requirement) -> bool {
        let Some(bindee) = self.bound.get_mut(&id) else {
            return false;
        };
        bindee.requirement = requirement;
        true
    }

    /// Returns the accuracy of the most demanding binding; `None` without bindings.
    pub(super) fn tightest(&self) -> Option<Duration> {
        self.bound
            .values()
            .map(|bindee| bindee.requirement.accuracy())
            .min()
    }

    /// Notifies each binding whose state has changed between met and not met, with the reason.
    pub(super) fn tell(&mut self, stamp: &Stamp, mut act: impl FnMut(Action)) {
        for (&binding, bindee) in &mut self.bound {
            let shortfall = bindee.requirement.shortfall(stamp);
            let met = shortfall.is_none();
            if bindee.met != Some(met) {
                bindee.met = Some(met);
                act(match shortfall {
                    Some(why) => Action::Violated { binding, why },
                    None => Action::Restored { binding },
                });
            }
        }
    }

    /// Returns the core-clock instant at which the first currently met binding will cease to be
    /// met.
    pub(super) fn met_until(&self, segment: &Segment) -> Option<Instant<Core>> {
        let met = self
            .bound
            .values()
            .filter(|bindee| bindee.met == Some(true));
        met.map(|bindee| segment.meets_until(&bindee.requirement))
            .min()
    }
}
