//! Kernel ticks (jiffies), the unit of kernel timers.

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

/// Granularity of a kernel's timer wheel (Linux, kernel/time/timer.c).
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    tick: Duration,
    phases: Random,
}

impl Ticks {
    /// Returns the wheel of a kernel that has ticks of length `tick`; `phases` draws the phase at
    /// which each timer is set.
    pub(super) fn new(tick: Duration, phases: Random) -> Self {
        Self {
            tick: tick.max(Duration::from_ns(1)),
            phases,
        }
    }

    /// Returns the length of a tick.
    pub(super) fn tick(&self) -> Duration {
        self.tick
    }

    /// Returns the expiry of a timer that is set at `now` for `timeout`. The expiry is in whole
    /// ticks and rounded up as in the wheel: beyond 63 ticks the wheel has a granularity of 8
    /// ticks, beyond 504 ticks of 64, and so on.
    ///
    /// On a real machine events occur at any phase of a tick. Where computing takes no virtual
    /// time, all events could occur at the same phase, so each timer gets a random phase, drawn
    /// from the seed of the run.
    pub(super) fn expiration(
        &mut self,
        now: Instant<Virtual>,
        timeout: Duration,
    ) -> Instant<Virtual> {
        let tick_ns = self.tick.as_ns();
        let ticks = (timeout.as_ns().max(0) + tick_ns - 1) / tick_ns;
        let mut shift = 0;
        while ticks >= 63 << shift && shift < 24 {
            shift += 3;
        }
        let step_ns = tick_ns << shift;
        let phase_ns = self.phases.between(0, step_ns);
        // The wheel's last step is assumed to be `phase_ns` ago.
        let expires = phase_ns / tick_ns + ticks;
        let steps = (expires >> shift) + 1;
        now + Duration::from_ns(steps * step_ns - phase_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_expire_in_whole_ticks_and_never_early() {
        let mut ticks = Ticks::new(Duration::from_ms(4), Random::new(1, 0));
        for (timeout_ms, latest_ms) in [(40, 4), (204, 4), (1000, 32), (8000, 256)] {
            let now = Instant::from_ns(777_777_777);
            let timeout = Duration::from_ms(timeout_ms);
            let mut late: Vec<Duration> = (0..200)
                .map(|_| ticks.expiration(now, timeout) - now - timeout)
                .collect();
            late.sort();
            let (least, most) = (late[0], late[199]);
            assert!(least > -Duration::from_ms(4), "{least}");
            assert!(most <= Duration::from_ms(latest_ms), "{most}");
            assert!(
                most - least > Duration::from_ms(latest_ms / 2),
                "{least} to {most}"
            );
        }
    }

    #[test]
    fn the_draws_depend_on_the_seed_alone() {
        let draw = |seed| {
            let mut ticks = Ticks::new(Duration::from_ms(4), Random::new(seed, 0));
            [(); 9].map(|()| ticks.expiration(Instant::ZERO, Duration::from_ms(40)))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
