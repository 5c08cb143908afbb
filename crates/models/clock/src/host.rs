//! Clocks of a host: host time, counted by an oscillator, and converted by a kernel.
//!
//! An experiment defines how much time has passed for a host, but the host cannot read that time.
//! It counts an oscillator ([`HostOscillator`]) that is slightly fast or slow, and its kernel
//! derives clocks from the count ([`KernelClock`]), which a daemon may steer. [`HostClock`] is the
//! chain of maps: host time → core clock (CLOCK_MONOTONIC_RAW) → CLOCK_MONOTONIC, with
//! CLOCK_REALTIME at an offset. A host that counts the cycles of a processor core has one more map:
//! the oscillator drives the core, and the kernel counts the core's RVEC clock ([`DrivenClock`]).

use timeloom_time::convert::saturating_i64;
use timeloom_time::{ClockMap, Core, Duration, Instant, Rate, Utc};

use crate::RateError;
use crate::counter::{CycleOptions, DrivenClock, Frequency};
use crate::kernel::{Adjustment, Errno, KernelClock, KernelClockOptions, Timex};
use crate::oscillator::TemperatureCycle;
use crate::scale::{HostTime, Monotonic, Oscillation};
use timeloom_random::Random;

/// A host's oscillator with all its error terms. The default has no error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostOscillator {
    /// Frequency error at host time zero.
    pub frequency: RateError,
    /// Ageing: change of the frequency error per day.
    pub drift_per_day: RateError,
    /// Random walk of the frequency: standard deviation of the change per second.
    pub wander: RateError,
    /// White frequency noise: standard deviation of the frequency error within one second,
    /// independent of other seconds.
    pub jitter: RateError,
    /// Effect of the temperature on the frequency.
    pub temperature: TemperatureCycle,
}

impl Default for HostOscillator {
    fn default() -> Self {
        Self {
            frequency: RateError::ZERO,
            drift_per_day: RateError::ZERO,
            wander: RateError::ZERO,
            jitter: RateError::ZERO,
            temperature: TemperatureCycle::STEADY,
        }
    }
}

impl HostOscillator {
    /// Returns true if the oscillator's rate never changes.
    fn is_constant(&self) -> bool {
        let still = [self.drift_per_day, self.wander, self.jitter];
        still == [RateError::ZERO; 3] && self.temperature.swing_k == 0.0
    }
}

/// State of a host's clocks at host time zero, and the parameters of their errors.
#[derive(Clone, Debug)]
pub struct HostClockOptions {
    /// Initial values of the kernel's clocks.
    pub kernel: KernelClockOptions,
    /// Oscillator that the kernel counts.
    pub oscillator: HostOscillator,
    /// Core that the oscillator drives, if the kernel counts its cycles; `None` if the kernel
    /// counts the oscillator itself.
    pub cycles: Option<CycleOptions>,
    /// Seed of the random errors of the oscillator, and of the load of a governor.
    pub seed: u64,
}

/// Maps from host time to a host's clocks, valid from an instant until the next change.
#[derive(Clone, Copy, Debug)]
pub struct HostLine {
    /// Map from host time to CLOCK_MONOTONIC_RAW.
    pub core: ClockMap<HostTime, Core>,
    /// Map from host time to CLOCK_MONOTONIC.
    pub monotonic: ClockMap<HostTime, Monotonic>,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    pub realtime_ahead: Duration,
    /// CLOCK_TAI minus CLOCK_MONOTONIC.
    pub tai_ahead: Duration,
}

impl HostLine {
    /// Returns CLOCK_REALTIME at host time `now`.
    pub fn realtime(&self, now: Instant<HostTime>) -> Instant<Utc> {
        ClockMap::ahead_by(self.realtime_ahead).at(self.monotonic.at(now))
    }
}

/// Clocks of one host. The argument `now` of every method is host time and must never decrease.
#[derive(Clone, Debug)]
pub struct HostClock {
    oscillator: HostOscillator,
    noise: Random,
    /// Present value of the frequency's random walk, in parts per 10^12.
    walk_ppt: f64,
    oscillation: ClockMap<HostTime, Oscillation>,
    cycles: Option<Cycles>,
    core: ClockMap<HostTime, Core>,
    /// Host time at which the oscillator's rate next changes; `None` if it never changes.
    next_step: Option<Instant<HostTime>>,
    kernel: KernelClock,
}

/// Core whose cycles the kernel counts.
#[derive(Clone, Debug)]
struct Cycles {
    clock: DrivenClock,
    /// CLOCK_MONOTONIC_RAW at the start of the count.
    raw: Instant<Core>,
}

impl HostClock {
    /// Returns the clocks at host time zero.
    pub fn new(options: &HostClockOptions) -> Self {
        let mut clock = Self {
            oscillator: options.oscillator,
            noise: Random::new(options.seed, 0),
            walk_ppt: 0.0,
            oscillation: ClockMap::new(Instant::ZERO, Instant::ZERO, Rate::ONE),
            cycles: options.cycles.as_ref().map(|cycles| Cycles {
                // The seed is inverted, so that the governor's load is independent of the
                // oscillator's noise.
                clock: DrivenClock::new(cycles, !options.seed),
                raw: options.kernel.raw,
            }),
            core: ClockMap::new(Instant::ZERO, options.kernel.raw, Rate::ONE),
            next_step: (!options.oscillator.is_constant()).then_some(Instant::ZERO + STEP),
            kernel: KernelClock::new(&options.kernel),
        };
        clock.oscillation.rate = clock.rate_at(Instant::ZERO);
        clock.count_from(Instant::ZERO);
        clock
    }

    /// Returns the maps from host time to the clocks, from `now` until the next change.
    pub fn line(&mut self, now: Instant<HostTime>) -> HostLine {
        self.advance(now);
        let core = self.core.continued(now, self.core.rate);
        let line = self.kernel.line();
        HostLine {
            core,
            monotonic: ClockMap::new(now, line.at(core.out0), core.rate.times(line.rate())),
            realtime_ahead: self.kernel.realtime_ahead(),
            tai_ahead: self.kernel.tai_ahead(),
        }
    }

    /// Returns the host time at which the maps may next change without a call; `None` for never.
    pub fn next_wake(&mut self) -> Option<Instant<HostTime>> {
        let kernel = self
            .kernel
            .next_wake()
            .and_then(|raw| self.core.first_reaching(raw));
        let change = self.next_change();
        self.next_step.into_iter().chain(kernel).chain(change).min()
    }

    /// Returns the host time at which the rate of the core's clock next changes without a call.
    fn next_change(&mut self) -> Option<Instant<HostTime>> {
        let change = self.cycles.as_mut()?.clock.next_change()?;
        self.oscillation.first_reaching(Instant::ZERO + change)
    }

    /// Returns the greatest possible lag of CLOCK_MONOTONIC_RAW behind the oscillator's count,
    /// caused by frequency changes of the core; `None` if the kernel counts no cycles. The clock is
    /// never ahead of the count.
    pub fn missing(&mut self) -> Option<Duration> {
        Some(self.cycles.as_mut()?.clock.missing())
    }

    /// Changes the frequency of the core at `now`. Has no effect if the kernel counts no cycles.
    pub fn handle_frequency(&mut self, now: Instant<HostTime>, frequency: Frequency) {
        self.advance(now);
        self.count_from(now);
        if let Some(cycles) = &mut self.cycles {
            cycles.clock.handle_frequency(frequency);
            self.count_from(now);
        }
    }

    /// Records that readers saw CLOCK_MONOTONIC_RAW ahead of its value by `ahead`, because they
    /// used the old map for a moment after the core had changed its frequency. The clock keeps this
    /// lead, since no reader may see it go back, and then removes the lead slowly. Has no effect if
    /// the kernel counts no cycles.
    pub fn absorb_raw(&mut self, now: Instant<HostTime>, ahead: Duration) {
        self.advance(now);
        self.count_from(now);
        if let Some(cycles) = &mut self.cycles {
            cycles.clock.absorb(ahead);
            self.count_from(now);
        }
    }

    /// Returns the result that `adjtimex` has at `now` if it changes nothing (modes 0).
    pub fn state(&mut self, now: Instant<HostTime>) -> Timex {
        let mut timex = Timex::default();
        // A call that only reads needs no privilege and cannot fail.
        let _ = self.adjust(now, &mut timex, false);
        timex
    }

    /// Returns the number of steps and leap seconds of CLOCK_REALTIME so far.
    pub fn discontinuities(&self) -> u64 {
        self.kernel.discontinuities()
    }

    /// Executes `adjtimex`; see [`KernelClock::adjust`].
    ///
    /// # Errors
    /// Fails with the error of the system call.
    pub fn adjust(
        &mut self,
        now: Instant<HostTime>,
        timex: &mut Timex,
        privileged: bool,
    ) -> Result<Adjustment, Errno> {
        self.advance(now);
        self.kernel.adjust(self.core.at(now), timex, privileged)
    }

    /// Executes `clock_settime(CLOCK_REALTIME)`; see [`KernelClock::set`].
    ///
    /// # Errors
    /// Fails with the error of the system call.
    pub fn set(
        &mut self,
        now: Instant<HostTime>,
        s: i64,
        part_ns: i64,
        privileged: bool,
    ) -> Result<(), Errno> {
        self.advance(now);
        self.kernel.set(self.core.at(now), s, part_ns, privileged)
    }

    /// Moves CLOCK_MONOTONIC forward by `ahead`, the lead that readers saw because a change of rate
    /// took effect too late. No reader may see the clock go back.
    pub fn absorb(&mut self, now: Instant<HostTime>, ahead: Duration) {
        self.advance(now);
        self.kernel.absorb(self.core.at(now), ahead);
    }

    fn advance(&mut self, now: Instant<HostTime>) {
        loop {
            let step = self.next_step.filter(|at| *at <= now);
            let change = self.next_change().filter(|at| *at <= now);
            let Some(at) = step.into_iter().chain(change).min() else {
                break;
            };
            self.kernel.advance(self.core.at(at));
            if step == Some(at) {
                self.walk_ppt += self.noise.normal() * self.oscillator.wander.as_ppt() as f64;
                let rate = self.rate_at(at);
                self.oscillation = self.oscillation.continued(at, rate);
                self.next_step = Some(at + STEP);
            }
            self.count_from(at);
        }
        self.kernel.advance(self.core.at(now));
    }

    /// Starts a new line of the core clock at `at`, from the oscillator or from the counted cycles.
    fn count_from(&mut self, at: Instant<HostTime>) {
        let (shown, rate) = (self.core.at(at), self.oscillation.rate);
        self.core = match &mut self.cycles {
            None => ClockMap::new(at, shown, rate),
            Some(Cycles { clock, raw }) => {
                clock.advance(self.oscillation.at(at) - Instant::ZERO);
                // The core's clock counts whole cycles, while the previous line did not.
                let counted = *raw + clock.shown();
                ClockMap::new(at, counted.max(shown), rate.times(clock.rate()))
            }
        };
    }

    /// Returns the oscillator's rate for the second that begins at `at`.
    fn rate_at(&mut self, at: Instant<HostTime>) -> Rate {
        let oscillator = &self.oscillator;
        let at_s = (at - Instant::ZERO).as_s_f64();
        let warmth = oscillator.temperature.error_ppt(at_s) - oscillator.temperature.error_ppt(0.0);
        let error_ppt = oscillator.frequency.as_ppt() as f64
            + oscillator.drift_per_day.as_ppt() as f64 * at_s / 86_400.0
            + warmth
            + self.walk_ppt
            + self.noise.normal() * oscillator.jitter.as_ppt() as f64;
        // An oscillator is never off by a tenth; a larger error is a mistake in the scenario.
        RateError::from_ppt(saturating_i64(error_ppt.clamp(-1e11, 1e11))).to_rate()
    }
}

/// Interval between two changes of the oscillator's rate.
const STEP: Duration = Duration::from_s(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn options(oscillator: HostOscillator) -> HostClockOptions {
        HostClockOptions {
            kernel: KernelClockOptions {
                raw: Instant::from_ns(1_000_000_000),
                monotonic: Instant::from_ns(1_000_000_000),
                realtime: Instant::from_ns(1_700_000_000_000_000_000),
                tai_s: 37,
                ticks_per_s: 250,
            },
            oscillator,
            cycles: None,
            seed: 5,
        }
    }

    fn at_s(s: i64) -> Instant<HostTime> {
        Instant::from_ns(s * 1_000_000_000)
    }

    #[test]
    fn an_ideal_host_shows_its_own_time_and_never_wakes() {
        let mut clock = HostClock::new(&options(HostOscillator::default()));
        assert_eq!(clock.next_wake(), None);
        let line = clock.line(at_s(1_000));
        assert_eq!(line.monotonic.out0.as_ns(), 1_001_000_000_000);
        assert_eq!(line.monotonic.rate, Rate::ONE);
        assert_eq!(
            line.realtime(at_s(1_001)).as_ns(),
            1_700_001_001_000_000_000
        );
    }

    #[test]
    fn fifty_ppm_fast_is_fifty_microseconds_a_second_until_it_is_steered() {
        let mut clock = HostClock::new(&options(HostOscillator {
            frequency: RateError::from_ppb(50_000),
            ..HostOscillator::default()
        }));
        let before = clock.line(at_s(100)).monotonic.out0.as_ns() - 101_000_000_000;
        assert!((before - 5_000_000).abs() <= 2, "{before}");
        let mut timex = Timex {
            modes: crate::kernel::modes::FREQUENCY,
            freq: -50 << 16,
            ..Timex::default()
        };
        clock
            .adjust(at_s(100), &mut timex, true)
            .expect("permitted");
        let after = clock.line(at_s(1_100));
        let ahead = after.monotonic.out0.as_ns() - 1_101_000_000_000;
        // (1 + 50 ppm) (1 - 50 ppm) = 1 - 2.5e-9.
        assert!((ahead - before + 2_500).abs() <= 10, "{}", ahead - before);
        let raw = after.core.out0.as_ns() - 1_101_000_000_000;
        assert!((raw - 55_000_000).abs() <= 5, "RAW is not steered: {raw}");
    }

    #[test]
    fn a_seed_defines_one_wander_for_any_number_of_readings() {
        let oscillator = HostOscillator {
            frequency: RateError::from_ppb(-20_000),
            drift_per_day: RateError::from_ppb(100),
            wander: RateError::from_ppb(2),
            jitter: RateError::from_ppb(10),
            temperature: TemperatureCycle {
                swing_k: 4.0,
                period_s: 3_600.0,
                above_turnover_k: 2.0,
            },
        };
        let (mut often, mut seldom) = (
            HostClock::new(&options(oscillator)),
            HostClock::new(&options(oscillator)),
        );
        let mut last = Instant::from_ns(0);
        for ms in (0..1_800_000).step_by(370) {
            let now = Instant::from_ns(ms * 1_000_000);
            let shown = often.line(now).monotonic.out0;
            assert!(shown > last);
            last = shown;
        }
        let end = at_s(1_800);
        let (a, b) = (often.line(end), seldom.line(end));
        assert_eq!(a.core, b.core);
        assert_eq!(a.monotonic, b.monotonic);
        // After a quarter of the cycle, the temperature has risen by 4 K to 6 K above turnover. The
        // oscillator is slower by 40 ppb/K² * (36 - 4) K² = 1.28 ppm.
        let mut clock = HostClock::new(&options(HostOscillator {
            wander: RateError::ZERO,
            jitter: RateError::ZERO,
            drift_per_day: RateError::ZERO,
            ..oscillator
        }));
        let rate = clock.line(at_s(900)).core.rate.as_f64() - 1.0;
        assert!((rate * 1e9 + 21_280.0).abs() < 1.0, "{rate}");
    }

    /// With an oscillator that has an error, the time lost in frequency changes is added to that
    /// error.
    #[test]
    fn a_host_that_counts_cycles_lags_its_oscillator_by_the_hidden_time() {
        use crate::counter::FrequencySource;
        let oscillator = HostOscillator {
            frequency: RateError::from_ppb(50_000),
            ..HostOscillator::default()
        };
        let trace = "0 s 800 MHz\n10 s 400 MHz\n20 s 800 MHz".parse();
        let mut options = options(oscillator);
        options.cycles = Some(CycleOptions {
            source: FrequencySource::Trace(trace.expect("a list")),
            switch: Duration::from_us(50),
        });
        let (mut often, mut seldom) = (HostClock::new(&options), HostClock::new(&options));
        let mut last = Instant::from_ns(0);
        for us in (0..30_000_000).step_by(3_331) {
            let now = Instant::from_ns(us * 1_000);
            let line = often.line(now);
            assert!(line.core.out0 > last, "at {us} us");
            assert!((line.monotonic.out0.as_ns() - line.core.out0.as_ns()).abs() <= 2);
            last = line.core.out0;
        }
        let end = at_s(30);
        let (a, b) = (often.line(end).core.out0, seldom.line(end).core.out0);
        assert!((a - b).as_ns().abs() <= 4, "{a:?} {b:?}");
        // The oscillator gains 1.5 ms; each of the two changes loses 12.5 us.
        let ahead = (b - Instant::from_ns(31_000_000_000)).as_ns();
        assert!((ahead - 1_475_000).abs() <= 10, "{ahead}");
        let missing = seldom.missing().expect("it counts cycles");
        assert!(
            missing >= Duration::from_us(25) && missing <= Duration::from_us(77),
            "{missing}"
        );
        assert_eq!(seldom.next_wake(), None, "the list is over");
    }

    /// The page that readers map is always rewritten too late: no reader sees the clock go back,
    /// and in the end the clock has the value that it would have had without the delay.
    #[test]
    fn a_clock_whose_changes_are_noticed_late_gives_back_its_excess() {
        use crate::counter::FrequencySource;
        let trace = "0 s 800 MHz\n1 s 400 MHz\n2 s 800 MHz".parse();
        let mut options = options(HostOscillator::default());
        options.cycles = Some(CycleOptions {
            source: FrequencySource::Trace(trace.expect("a list")),
            switch: Duration::from_us(50),
        });
        for late_us in [0, 10, 100, 900] {
            let mut clock = HostClock::new(&options);
            let mut line = clock.line(Instant::ZERO);
            while let Some(at) = clock.next_wake() {
                let now = at + Duration::from_us(late_us);
                let seen = line.core.at(now);
                let next = clock.line(now);
                let ahead = seen - next.core.out0;
                if ahead > Duration::ZERO {
                    clock.absorb_raw(now, ahead);
                }
                let shown = clock.line(now);
                assert!(shown.core.out0 >= seen, "{late_us} us late at {now:?}");
                // Changes of the line at later instants need no correction.
                let ahead = line.monotonic.at(now) - shown.monotonic.out0;
                assert!(ahead <= Duration::from_ns(2), "{late_us} us late: {ahead}");
                line = shown;
            }
            let end = clock.line(at_s(3)).monotonic.out0 - Instant::from_ns(4_000_000_000);
            assert!(
                (end.as_ns() + 25_000).abs() <= 8,
                "{late_us} us late: {end}"
            );
        }
    }
}
