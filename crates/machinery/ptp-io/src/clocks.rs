//! Detection of steps of the civil clock, which takes the software stamps.
//!
//! Timers use the monotonic clock. A residence or a peer delay is a difference of two stamps: if
//! the civil clock is set in between, the difference is wrong by the step.

use timeloom_sys::clock::CivilOffset;
use timeloom_time::Duration;

/// Detector of steps of the civil clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepGuard(CivilOffset);

/// Smallest detectable step; below it is the noise of reading two clocks.
const RESOLUTION: Duration = Duration::from_us(2);

impl StepGuard {
    pub(crate) fn new() -> Self {
        Self(CivilOffset::measure())
    }

    /// Returns the step of the civil clock since the last call, if any.
    pub(crate) fn step(&mut self) -> Option<Duration> {
        let mut fresh = CivilOffset::bracket();
        if fresh.error > RESOLUTION {
            // Interrupted between the readings.
            fresh = CivilOffset::measure();
        }
        let step = fresh.step_since(&self.0, RESOLUTION);
        self.0 = fresh;
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sets_the_clock_of_a_test_machine() {
        assert_eq!(StepGuard::new().step(), None);
    }
}
