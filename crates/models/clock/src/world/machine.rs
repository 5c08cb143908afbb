//! Simulated machine: true time, and the readings of its clocks.

use timeloom_time::convert::clamped_i64;
use timeloom_time::{Duration, Instant};

use crate::RateError;
use crate::oscillator::{Oscillator, OscillatorSpec, TemperatureCycle};
use crate::timeline::LocalNow;
use timeloom_random::Random;

/// Machine whose core clock is a simulated oscillator. The state is in picoseconds, so that
/// rounding to the clock's nanoseconds is part of the model and not an effect of the arithmetic.
#[derive(Clone, Debug)]
pub struct SimulatedMachine {
    /// True time in picoseconds since the timeline's zero.
    true_ps: i128,
    core_ps: i128,
    witness_ps: i128,
    marker: u64,
    suspended: Duration,
    oscillator: Oscillator,
    spec: OscillatorSpec,
    has_witness: bool,
    noise: Random,
}

impl SimulatedMachine {
    /// Returns a machine that starts at `true_now` with an oscillator within `spec`.
    pub fn new(
        spec: OscillatorSpec,
        has_witness: bool,
        true_now: Duration,
        mut noise: Random,
    ) -> Self {
        Self {
            true_ps: ps(true_now),
            core_ps: ps(Duration::from_ms(noise.between(0, 1_000_000))),
            witness_ps: 0,
            marker: 0,
            suspended: Duration::ZERO,
            oscillator: some_oscillator(spec, &mut noise),
            spec,
            has_witness,
            noise,
        }
    }

    /// Returns the true time, in picoseconds since the timeline's zero.
    pub fn true_ps(&self) -> i128 {
        self.true_ps
    }

    /// Returns the true time since the timeline's zero, rounded down to whole nanoseconds.
    pub fn true_ns(&self) -> i64 {
        clamped_i64(self.true_ps.div_euclid(1000))
    }

    /// Returns the present readings of the machine's clocks.
    pub fn now(&self) -> LocalNow {
        LocalNow {
            core: Instant::from_ns(clamped_i64(self.core_ps.div_euclid(1000))),
            marker: self.marker,
            suspended: self.suspended,
            witness: self
                .has_witness
                .then(|| Instant::from_ns(clamped_i64(self.witness_ps.div_euclid(1000)))),
        }
    }

    /// Advances true time to `until_ps`, in steps of at most 100 ms, so that the oscillator's noise
    /// varies within that time.
    pub fn run_until(&mut self, until_ps: i128) {
        while self.true_ps < until_ps {
            let step_ps = (until_ps - self.true_ps).min(100_000_000_000);
            let length = Duration::from_ns(clamped_i64(step_ps / 1000));
            let error = i128::from(self.oscillator.advance(length).as_ppt());
            self.true_ps += step_ps;
            self.core_ps += step_ps + (step_ps * error).div_euclid(1_000_000_000_000);
            self.witness_ps += step_ps;
        }
    }

    /// Steps the core clock by `by`.
    pub fn step(&mut self, by: Duration) {
        self.core_ps += ps(by);
    }

    /// Suspends the machine: its core clock stops while true time advances by `length`.
    pub fn suspend(&mut self, length: Duration) {
        self.true_ps += ps(length);
        self.suspended += length;
    }

    /// Migrates the machine: afterwards it has another oscillator and another counter value, a
    /// short time has passed, and the hypervisor has increased the marker.
    pub fn migrate(&mut self) {
        self.true_ps += ps(Duration::from_ms(self.noise.between(1, 2000)));
        self.core_ps += ps(Duration::from_ms(self.noise.between(-10_000, 1_000_000)));
        self.marker += 1;
        self.oscillator = some_oscillator(self.spec, &mut self.noise);
    }

    /// Gives the machine an oscillator outside of its specification, to show that the containment
    /// test can fail.
    pub fn break_promise(&mut self, factor: i64) {
        let max_error = RateError::from_ppt(self.spec.max_error.as_ppt() * factor);
        let broken = OscillatorSpec {
            max_error,
            stability: None,
        };
        self.oscillator = Oscillator::new(broken, TemperatureCycle::STEADY, self.noise.fork());
    }
}

/// Returns a random oscillator. In half of the cases it is realistic, in the others it is always at
/// the limits of its specification.
fn some_oscillator(spec: OscillatorSpec, noise: &mut Random) -> Oscillator {
    if noise.chance(0.5) {
        return Oscillator::adversary(spec, noise.fork());
    }
    let day = TemperatureCycle {
        swing_k: 4.0,
        period_s: 7200.0,
        above_turnover_k: 2.0,
    };
    Oscillator::new(spec, day, noise.fork())
}

fn ps(length: Duration) -> i128 {
    i128::from(length.as_ns()) * 1000
}
