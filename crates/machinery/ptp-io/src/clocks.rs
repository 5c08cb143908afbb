//! Detection of steps of the system clock, which is the clock of software timestamps.
//!
//! Timers use the monotonic clock. But a residence time or a peer delay is the difference of two
//! timestamps. If the system clock is set between them, the difference is wrong by the size of the
//! step.

use timeloom_sys::clock::CivilOffset;
use timeloom_time::Duration;

/// Detector of steps of the system clock (CLOCK_REALTIME).
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepGuard(CivilOffset);

/// Smallest step that is detected; smaller differences are noise from reading two clocks.
const RESOLUTION: Duration = Duration::from_us(2);

impl StepGuard {
    pub(crate) fn new() -> Self {
        Self(CivilOffset::measure())
    }

    /// Returns the step of the system clock since the last call; `None` if there was none.
    pub(crate) fn step(&mut self) -> Option<Duration> {
        let mut fresh = CivilOffset::bracket();
        if fresh.error > RESOLUTION {
            // The thread was interrupted between the readings, so the measurement is repeated.
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
    fn no_test_steps_the_clock_of_its_machine() {
        assert_eq!(StepGuard::new().step(), None);
    }
}
