//! Progress and result of a run.

use timeloom_guest::UnhandledCall;
use timeloom_results::{Caveat, CheckResult};
use timeloom_time::Duration;

use crate::verdict::End;

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Virtual time that has passed.
    pub virtual_time: Duration,
    /// Planned virtual duration of the run.
    pub planned: Duration,
    /// Wall time since the clock was started.
    pub wall: Duration,
    /// Part of `wall` during which the clock was stopped.
    pub paused: Duration,
}

/// Result of a run that has ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Reason why the run ended.
    pub end: End,
    /// Results of the scenario's checks.
    pub checks: Vec<CheckResult>,
    /// Virtual and wall time at the end.
    pub progress: Progress,
    /// System calls of programs that carried time and were not virtualised.
    pub unhandled: Vec<UnhandledCall>,
    /// Reasons why the check results cannot be trusted.
    pub untrusted: Vec<Caveat>,
}

impl Summary {
    /// Returns true if the run reached its planned end, its results can be trusted, and every check
    /// that applies was satisfied.
    pub fn passed(&self) -> bool {
        self.end == End::Reached
            && self.untrusted.is_empty()
            && self
                .checks
                .iter()
                .all(|check| check.passed || !check.applies)
    }
}
