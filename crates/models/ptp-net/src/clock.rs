//! Clock that timestamps messages at a node: an imperfect oscillator, a counter of finite
//! resolution, and the adjustments of a servo.

use timeloom_clock::Core;
use timeloom_clock::host::{HostClock, HostClockOptions, HostOscillator};
use timeloom_clock::host_time_map::HostTimeMap;
use timeloom_clock::kernel::KernelClockOptions;
use timeloom_ptp::{Hardware, Stamp};
use timeloom_time::{ClockMap, Duration, Instant, Rate, Utc, Virtual};

/// Initial state of a node's clock, at virtual time zero.
#[derive(Clone, Copy, Debug)]
pub struct ClockOptions {
    /// Oscillator that drives the clock.
    pub oscillator: HostOscillator,
    /// Seed of the oscillator's random errors.
    pub seed: u64,
    /// True time at virtual time zero.
    pub epoch: Instant<Utc>,
    /// Clock minus true time, at virtual time zero.
    pub offset: Duration,
    /// Timestamps are rounded down to multiples of this, which is at least 1 ns. A 125 MHz counter
    /// has 8 ns.
    pub resolution: Duration,
}

impl Default for ClockOptions {
    fn default() -> Self {
        Self {
            oscillator: HostOscillator::default(),
            seed: 0,
            epoch: Instant::ZERO,
            offset: Duration::ZERO,
            resolution: Duration::from_ns(1),
        }
    }
}

/// A clock that can be read, stepped and steered. The argument `now` must never decrease.
#[derive(Clone, Debug)]
pub struct NodeClock {
    /// Host time of the node, which equals the simulation's time.
    time_map: HostTimeMap,
    oscillator: HostClock,
    shown: ClockMap<Core, Hardware>,
    /// Map from virtual time to the time of a correct clock (true time).
    right: ClockMap<Virtual, Hardware>,
    resolution_ns: i64,
}

/// Map from civil time to the time of a correct clock: the identity, as for the hosts of a run.
const CIVIL: ClockMap<Utc, Hardware> = ClockMap::ahead_by(Duration::ZERO);

impl NodeClock {
    /// Returns the clock at virtual time zero.
    pub fn new(options: &ClockOptions) -> Self {
        let oscillator = HostClock::new(&HostClockOptions {
            cycles: None,
            // The model uses only the oscillator; the kernel's clocks are not read.
            kernel: KernelClockOptions {
                raw: Instant::ZERO,
                monotonic: Instant::ZERO,
                realtime: options.epoch,
                tai_s: 0,
                ticks_per_s: 250,
            },
            oscillator: options.oscillator,
            seed: options.seed,
        });
        let right = CIVIL.at(options.epoch);
        Self {
            time_map: HostTimeMap::default(),
            oscillator,
            shown: ClockMap::new(Instant::ZERO, right + options.offset, Rate::ONE),
            right: ClockMap::new(Instant::ZERO, right, Rate::ONE),
            resolution_ns: options.resolution.as_ns().max(1),
        }
    }

    /// Returns the clock's reading at `at`, which is `now` or slightly before.
    pub fn read(&mut self, now: Instant<Virtual>, at: Instant<Virtual>) -> Stamp {
        let core = self.oscillator.line(self.time_map.at(now)).core;
        self.shown.at(core.at(self.time_map.at(at)))
    }

    /// Returns the clock's reading at `at`, rounded down to the resolution, as in a timestamp.
    pub fn stamp(&mut self, now: Instant<Virtual>, at: Instant<Virtual>) -> Stamp {
        let exact = self.read(now, at);
        let beyond_ns = exact.as_ns().rem_euclid(self.resolution_ns);
        exact - Duration::from_ns(beyond_ns)
    }

    /// Returns clock minus true time at `at`.
    pub fn ahead(&mut self, now: Instant<Virtual>, at: Instant<Virtual>) -> Duration {
        self.read(now, at) - self.right.at(at)
    }

    /// Moves the clock forward by `length`; backward if `length` is negative.
    pub fn step(&mut self, length: Duration) {
        self.shown.out0 += length;
    }

    /// Sets the frequency adjustment from `now` on, in parts per 10^9 relative to the oscillator.
    pub fn steer(&mut self, now: Instant<Virtual>, ppb: f64) {
        let core = self.oscillator.line(self.time_map.at(now)).core.out0;
        // A servo's output is far from −100 %, which would stop the clock.
        let rate = Rate::from_f64(1.0 + ppb * 1e-9).unwrap_or(Rate::ONE);
        self.shown = self.shown.continued(core, rate);
    }
}

#[cfg(test)]
mod tests {
    use timeloom_clock::RateError;

    use super::*;

    #[test]
    fn a_clock_drifts_is_steered_and_stamps_with_its_resolution() {
        let at = |ms: i64| Instant::ZERO + Duration::from_ms(ms);
        let mut clock = NodeClock::new(&ClockOptions {
            oscillator: HostOscillator {
                frequency: RateError::from_ppb(10_000),
                ..HostOscillator::default()
            },
            epoch: Instant::from_ns(1_700_000_000_000_000_000),
            offset: Duration::from_us(3),
            resolution: Duration::from_ns(8),
            ..ClockOptions::default()
        });
        let ahead = |clock: &mut NodeClock, ms| clock.ahead(at(ms), at(ms)).as_ns();
        assert_eq!(ahead(&mut clock, 0), 3_000);
        assert!((ahead(&mut clock, 1_000) - 13_000).abs() <= 1);
        assert_eq!(clock.stamp(at(1_001), at(1_001)).as_ns() % 8, 0);
        clock.step(Duration::from_us(-13));
        clock.steer(at(1_001), -10_000.0);
        assert!((ahead(&mut clock, 1_001) - 10).abs() <= 1);
        assert!((ahead(&mut clock, 2_001) - 10).abs() <= 2, "(1 + x)(1 - x)");
        // An instant slightly before `now`.
        let before = at(2_001) - Duration::from_us(1);
        assert!((clock.ahead(at(2_001), before).as_ns() - 10).abs() <= 2);
    }
}
