//! First map of the clock: counter → wall.

use timeloom_abi::{CounterKind, ticks_ordered};
use timeloom_sys::clock::{ClockId, read_ns, wall_now};
use timeloom_time::{ClockMap, Counter as CounterScale, Instant, Rate, Wall};

use crate::arch::CLOCKSOURCE;
use crate::error::GuestError;
use crate::linux::spare::with_spare;

/// Cycle counter in use, with its reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    kind: CounterKind,
}

/// Readings of the counter and of the wall clock (CLOCK_MONOTONIC) at the same instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    ticks: u64,
    wall: Instant<Wall>,
}

impl Counter {
    /// CLOCK_MONOTONIC, read by a system call, as a counter of nanoseconds.
    pub(crate) const MONOTONIC: Self = Self {
        kind: CounterKind::Monotonic,
    };

    /// Returns the processor's counter if the kernel itself keeps time with it. The kernel has then
    /// checked that the counter is steady and synchronised between processors. Otherwise returns
    /// [`Self::MONOTONIC`].
    pub(crate) fn detect() -> Self {
        Self {
            kind: if kernel_counts_by().as_deref() == Some(CLOCKSOURCE) {
                CounterKind::Tsc
            } else {
                CounterKind::Monotonic
            },
        }
    }

    pub(crate) fn kind(self) -> CounterKind {
        self.kind
    }

    /// Returns the name of the kernel's clock source if that is no longer this counter. The kernel
    /// abandons a counter that it finds unstable, and never returns to it.
    pub(crate) fn left_for(self) -> Option<String> {
        match self.kind {
            CounterKind::Tsc => kernel_counts_by().filter(|name| name != CLOCKSOURCE),
            CounterKind::Monotonic => None,
        }
    }

    pub(crate) fn ticks(self) -> u64 {
        match self.kind {
            CounterKind::Tsc => ticks_ordered(),
            CounterKind::Monotonic => wall_now().as_ns() as u64,
        }
    }

    /// Reads the wall clock between two counter reads, several times, and returns the attempt in
    /// which the counter reads were closest together. The error is at most half of their distance.
    pub(crate) fn sample(self) -> Sample {
        (0..8)
            .map(|_| {
                let before = self.ticks();
                let wall = wall_now();
                let after = self.ticks();
                (
                    after - before,
                    Sample {
                        ticks: before + (after - before) / 2,
                        wall,
                    },
                )
            })
            .min_by_key(|(width, _)| *width)
            .expect("eight attempts")
            .1
    }
}

/// Returns the name of the kernel's clock source, or `None` if it cannot be read.
fn kernel_counts_by() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = with_spare(|| std::fs::read_to_string(path)).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Linear map from counter to wall time, and the samples on which it is based.
#[derive(Clone, Copy)]
pub(crate) struct Calibration {
    first: Sample,
    map: ClockMap<CounterScale, Wall>,
}

impl Calibration {
    /// Takes two samples, five milliseconds apart. The map is accurate to some 10 ppm, which the
    /// first [`Self::steered`] improves.
    pub(crate) fn start(counter: Counter) -> Self {
        let first = counter.sample();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let second = counter.sample();
        let rate = rate_between(first, second);
        let map = ClockMap::new(Instant::from_ticks(second.ticks), second.wall, rate);
        Self { first, map }
    }

    /// Returns the map in force.
    pub(crate) fn map(&self) -> ClockMap<CounterScale, Wall> {
        self.map
    }

    /// Checks whether a page can show a clock of this dilation. A page has a maximum of nanoseconds
    /// per tick.
    ///
    /// # Errors
    /// Fails if the clock would be too fast; the message states the least possible dilation.
    pub(crate) fn check_pace(&self, dilation: f64) -> Result<(), GuestError> {
        let least = self.map.rate.as_f64() / PAGE_NS_PER_TICK * MARGIN;
        // Rounded up to six digits, as the message prints it.
        let least = (least * 1e6).ceil() / 1e6;
        if dilation >= least {
            return Ok(());
        }
        Err(GuestError::Usage(format!(
            "a dilation of {dilation} is faster than a clock page can show on this machine; give at least {least} (where programs mostly wait, time can skip instead)"
        )))
    }

    /// Returns the map from `sample` on. Its rate is the mean rate since the first sample,
    /// corrected so that the present error vanishes within a second. The correction is at most 500
    /// ppm: a machine that was suspended catches up slowly, but guests never see a jump.
    pub(crate) fn steered(&self, sample: Sample) -> Self {
        let at = Instant::from_ticks(sample.ticks);
        let error_ns = (sample.wall - self.map.at(at)).as_ns();
        let bend = (error_ns as f64 / 1e9).clamp(-500e-6, 500e-6);
        let long_term = rate_between(self.first, sample);
        let bent = Rate::from_f64(1.0 + bend).map_or(long_term, |bend| long_term.times(bend));
        Self {
            first: self.first,
            map: self.map.continued(at, bent),
        }
    }
}

/// Emulated time-stamp counter as a function of CLOCK_MONOTONIC_RAW. Where the machine's counter is
/// the clock source, the kernel derives CLOCK_MONOTONIC_RAW from it by the counter's frequency
/// alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TscLine {
    /// Counter value at the zero of CLOCK_MONOTONIC_RAW, modulo 2^64.
    pub(crate) tsc0: u64,
    /// Ticks of the counter per nanosecond of CLOCK_MONOTONIC_RAW.
    pub(crate) per_ns: Rate,
}

impl TscLine {
    /// Takes two samples, 50 ms apart. The frequency is accurate to about a millionth.
    pub(crate) fn measure() -> Self {
        let (tsc1, raw1_ns) = Self::sample();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (tsc2, raw2_ns) = Self::sample();
        let per_ns = Rate::from_ratio(tsc2 - tsc1, raw2_ns - raw1_ns).expect("time has passed");
        let since_zero = (u128::from(raw2_ns) * (per_ns.to_bits() >> 8)) >> 56;
        Self {
            tsc0: tsc2.wrapping_sub(since_zero as u64),
            per_ns,
        }
    }

    fn sample() -> (u64, u64) {
        (0..16)
            .map(|_| {
                let before = ticks_ordered();
                let raw_ns = read_ns(ClockId::MonotonicRaw) as u64;
                let width = ticks_ordered() - before;
                (width, (before + width / 2, raw_ns))
            })
            .min_by_key(|(width, _)| *width)
            .expect("sixteen attempts")
            .1
    }
}

/// Maximum of nanoseconds per tick that a page can hold: eight bits before the point.
const PAGE_NS_PER_TICK: f64 = 256.0;

/// Factor that leaves a margin for the correction while following the machine's clock, and for an
/// oscillator's error.
const MARGIN: f64 = 1.01;

fn rate_between(from: Sample, to: Sample) -> Rate {
    let wall_ns = (to.wall - from.wall).as_ns().max(1) as u64;
    Rate::from_ratio(wall_ns, (to.ticks - from.ticks).max(1)).expect("at least one tick")
}
