//! The clock of a host: its own time, through a crystal, through a kernel.
//!
//! In an experiment it is known how much time a host has lived through. The host
//! does not know it: it counts a [`Crystal`] that runs a little fast or slow, and
//! its kernel makes clocks of the count ([`KernelClock`]) that a daemon may steer.
//! [`HostClock`] is the chain of the three maps: lived → core → monotonic, and
//! realtime beside it.

use timeloom_time::{ClockMap, Core, Duration, Instant, Rate, Utc};

use crate::RateError;
use crate::kernel::{Adjusted, Errno, KernelClock, KernelClockOptions, Timex};
use crate::noise::Noise;
use crate::oscillator::TemperatureCycle;
use crate::scale::{Lived, Monotonic};

/// A host's crystal, with everything that makes it err. The default is ideal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crystal {
    /// How much it runs too fast at the start.
    pub frequency: RateError,
    /// How much faster it gets per day: ageing.
    pub drift_per_day: RateError,
    /// Standard deviation of the step that its frequency makes each second:
    /// random walk.
    pub wander: RateError,
    /// Standard deviation of its frequency from one second to the next: white
    /// frequency noise.
    pub jitter: RateError,
    /// What the room does to it.
    pub temperature: TemperatureCycle,
}

impl Default for Crystal {
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

impl Crystal {
    /// Whether its rate never changes.
    fn is_constant(&self) -> bool {
        let still = [self.drift_per_day, self.wander, self.jitter];
        still == [RateError::ZERO; 3] && self.temperature.swing_k == 0.0
    }
}

/// How a host's clock starts, before the host has lived through anything.
#[derive(Clone, Copy, Debug)]
pub struct HostClockOptions {
    /// What its kernel shows then.
    pub kernel: KernelClockOptions,
    /// What its kernel counts.
    pub crystal: Crystal,
    /// Where the crystal's randomness comes from.
    pub seed: u64,
}

/// What a host's clocks show, from some instant on until the next change.
#[derive(Clone, Copy, Debug)]
pub struct HostLine {
    /// The host's own time to CLOCK_MONOTONIC_RAW.
    pub core: ClockMap<Lived, Core>,
    /// The host's own time to CLOCK_MONOTONIC.
    pub monotonic: ClockMap<Lived, Monotonic>,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    pub realtime_ahead: Duration,
    /// CLOCK_TAI minus CLOCK_MONOTONIC.
    pub tai_ahead: Duration,
}

impl HostLine {
    /// CLOCK_REALTIME at `now`.
    pub fn realtime(&self, now: Instant<Lived>) -> Instant<Utc> {
        ClockMap::ahead_by(self.realtime_ahead).at(self.monotonic.at(now))
    }
}

/// The clocks of one host. Every method takes `now` in the host's own time, which
/// never goes back.
#[derive(Clone, Debug)]
pub struct HostClock {
    crystal: Crystal,
    noise: Noise,
    /// The random walk so far, in ppt.
    walk_ppt: f64,
    core: ClockMap<Lived, Core>,
    /// When the crystal's rate changes next.
    next_step: Option<Instant<Lived>>,
    kernel: KernelClock,
}

impl HostClock {
    /// The clock at the zero of the host's own time.
    pub fn new(options: &HostClockOptions) -> Self {
        let mut clock = Self {
            crystal: options.crystal,
            noise: Noise::new(options.seed),
            walk_ppt: 0.0,
            core: ClockMap::new(Instant::ZERO, options.kernel.raw, Rate::ONE),
            next_step: (!options.crystal.is_constant()).then_some(Instant::ZERO + STEP),
            kernel: KernelClock::new(&options.kernel),
        };
        clock.core.rate = clock.rate_at(Instant::ZERO);
        clock
    }

    /// What the clocks show from `now` on.
    pub fn line(&mut self, now: Instant<Lived>) -> HostLine {
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

    /// When the line will change by itself next, if it may.
    pub fn next_wake(&self) -> Option<Instant<Lived>> {
        let kernel = self
            .kernel
            .next_wake()
            .and_then(|raw| self.core.first_reaching(raw));
        self.next_step.into_iter().chain(kernel).min()
    }

    /// What `adjtimex` would tell at `now`, without changing anything.
    pub fn state(&mut self, now: Instant<Lived>) -> Timex {
        let mut timex = Timex::default();
        // Reading needs no privilege and cannot fail.
        let _ = self.adjust(now, &mut timex, false);
        timex
    }

    /// Steps and leap seconds of CLOCK_REALTIME so far.
    pub fn discontinuities(&self) -> u64 {
        self.kernel.discontinuities()
    }

    /// `adjtimex`; see [`KernelClock::adjust`].
    ///
    /// # Errors
    /// As the call.
    pub fn adjust(
        &mut self,
        now: Instant<Lived>,
        timex: &mut Timex,
        privileged: bool,
    ) -> Result<Adjusted, Errno> {
        self.advance(now);
        self.kernel.adjust(self.core.at(now), timex, privileged)
    }

    /// `clock_settime(CLOCK_REALTIME)`; see [`KernelClock::set`].
    ///
    /// # Errors
    /// As the call.
    pub fn set(
        &mut self,
        now: Instant<Lived>,
        s: i64,
        part_ns: i64,
        privileged: bool,
    ) -> Result<(), Errno> {
        self.advance(now);
        self.kernel.set(self.core.at(now), s, part_ns, privileged)
    }

    /// Takes it that CLOCK_MONOTONIC is this much ahead: a change of rate was
    /// put in force too late, and nobody may see it go back.
    pub fn absorb(&mut self, now: Instant<Lived>, ahead: Duration) {
        self.advance(now);
        self.kernel.absorb(self.core.at(now), ahead);
    }

    fn advance(&mut self, now: Instant<Lived>) {
        while let Some(at) = self.next_step.filter(|at| *at <= now) {
            self.kernel.advance(self.core.at(at));
            self.walk_ppt += self.noise.normal() * self.crystal.wander.as_ppt() as f64;
            let rate = self.rate_at(at);
            self.core = self.core.continued(at, rate);
            self.next_step = Some(at + STEP);
        }
        self.kernel.advance(self.core.at(now));
    }

    /// The crystal's rate for the second that begins at `at`.
    fn rate_at(&mut self, at: Instant<Lived>) -> Rate {
        let crystal = &self.crystal;
        let at_s = (at - Instant::ZERO).as_s_f64();
        let warmth = crystal.temperature.error_ppt(at_s) - crystal.temperature.error_ppt(0.0);
        let error_ppt = crystal.frequency.as_ppt() as f64
            + crystal.drift_per_day.as_ppt() as f64 * at_s / 86_400.0
            + warmth
            + self.walk_ppt
            + self.noise.normal() * crystal.jitter.as_ppt() as f64;
        // No quartz is off by a tenth; what is would be a broken scenario.
        RateError::from_ppt(error_ppt.clamp(-1e11, 1e11) as i64).to_rate()
    }
}

/// How long the crystal keeps a rate.
const STEP: Duration = Duration::from_s(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn options(crystal: Crystal) -> HostClockOptions {
        HostClockOptions {
            kernel: KernelClockOptions {
                raw: Instant::from_ns(1_000_000_000),
                monotonic: Instant::from_ns(1_000_000_000),
                realtime: Instant::from_ns(1_700_000_000_000_000_000),
                tai_s: 37,
                ticks_per_s: 250,
            },
            crystal,
            seed: 5,
        }
    }

    fn at_s(s: i64) -> Instant<Lived> {
        Instant::from_ns(s * 1_000_000_000)
    }

    #[test]
    fn an_ideal_host_shows_its_own_time_and_never_wakes() {
        let mut clock = HostClock::new(&options(Crystal::default()));
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
        let mut clock = HostClock::new(&options(Crystal {
            frequency: RateError::from_ppb(50_000),
            ..Crystal::default()
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
    fn a_seed_stands_for_one_restless_crystal_however_often_it_is_looked_at() {
        let crystal = Crystal {
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
            HostClock::new(&options(crystal)),
            HostClock::new(&options(crystal)),
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
        // A quarter of the way the room is 4 K warmer, at 6 K above turnover:
        // 40 ppb/K² * (36 - 4) K² = 1.28 ppm slower.
        let mut clock = HostClock::new(&options(Crystal {
            wander: RateError::ZERO,
            jitter: RateError::ZERO,
            drift_per_day: RateError::ZERO,
            ..crystal
        }));
        let rate = clock.line(at_s(900)).core.rate.as_f64() - 1.0;
        assert!((rate * 1e9 + 21_280.0).abs() < 1.0, "{rate}");
    }
}
