//! The two clocks of the machine that a PTP program reads, and whether
//! somebody set one of them.
//!
//! Timers run by the monotonic clock. Software stamps are taken from the civil
//! clock, and a residence or a peer delay is a difference of two stamps: when
//! the civil clock is set in between, the difference is wrong by the step.

use timeloom_time::{Duration, Instant, Wall};

/// What the monotonic clock shows.
pub fn wall_now() -> Instant<Wall> {
    Instant::from_ns(read_ns(libc::CLOCK_MONOTONIC))
}

/// What the civil clock shows, in nanoseconds since 1970.
pub fn realtime_ns() -> i64 {
    read_ns(libc::CLOCK_REALTIME)
}

fn read_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on every Linux, and `time` is a timespec to fill.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(answer, 0, "every Linux has clock {clock}");
    Duration::from_s_ns(time.tv_sec, time.tv_nsec).as_ns()
}

/// Civil minus monotonic time. Linux steers both with one frequency, so the
/// difference stays where it is until somebody sets the civil clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepGuard {
    offset_ns: i64,
    error_ns: i64,
}

/// Below this a step cannot be told from the noise of reading two clocks.
const RESOLUTION_NS: i64 = 2_000;

impl StepGuard {
    pub(crate) fn new() -> Self {
        (0..3)
            .map(|_| Self::bracket())
            .min_by_key(|guard| guard.error_ns)
            .expect("three brackets")
    }

    fn bracket() -> Self {
        let before = read_ns(libc::CLOCK_MONOTONIC);
        let civil = read_ns(libc::CLOCK_REALTIME);
        let width = read_ns(libc::CLOCK_MONOTONIC) - before;
        Self {
            offset_ns: civil - (before + width / 2),
            error_ns: width / 2 + 1,
        }
    }

    /// How far the civil clock was set since this was last asked.
    pub(crate) fn step(&mut self) -> Option<Duration> {
        let mut fresh = Self::bracket();
        if fresh.error_ns > RESOLUTION_NS {
            // Interrupted between the readings.
            fresh = Self::new();
        }
        let step = self.judge(fresh);
        *self = fresh;
        step
    }

    fn judge(&self, fresh: Self) -> Option<Duration> {
        let moved = fresh.offset_ns - self.offset_ns;
        let noise = self.error_ns + fresh.error_ns + RESOLUTION_NS;
        (moved.abs() > noise).then(|| Duration::from_ns(moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_from_noise() {
        let mut guard = StepGuard::new();
        assert_eq!(
            guard.step(),
            None,
            "nobody sets the clock of a test machine"
        );
        let before = StepGuard {
            offset_ns: 5_000_000,
            error_ns: 40,
        };
        let at = |offset_ns, error_ns| {
            before.judge(StepGuard {
                offset_ns,
                error_ns,
            })
        };
        assert_eq!(at(5_001_500, 40), None);
        assert_eq!(at(5_010_000, 40), Some(Duration::from_us(10)));
        assert_eq!(at(4_990_000, 40), Some(Duration::from_us(-10)));
        assert_eq!(
            at(5_010_000, 50_000),
            None,
            "a coarse reading accuses nobody"
        );
    }
}
