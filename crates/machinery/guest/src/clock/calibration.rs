//! The first map: counter → wall.

use timeloom_page::{CounterKind, ticks_ordered};
use timeloom_sys::clock::{ClockId, read_ns, wall_now};
use timeloom_time::{ClockMap, Counter as CounterScale, Instant, Rate, Wall};

use crate::arch::CLOCKSOURCE;
use crate::error::GuestError;
use crate::linux::spare::with_spare;

/// The cycle counter in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    kind: CounterKind,
}

/// Readings of counter and wall clock, taken together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    ticks: u64,
    wall: Instant<Wall>,
}

impl Counter {
    /// CLOCK_MONOTONIC, by system call.
    pub(crate) const MONOTONIC: Self = Self {
        kind: CounterKind::Monotonic,
    };

    /// Returns the processor's counter if the kernel itself keeps time with it, since the kernel
    /// has then checked that it is steady and synchronised between processors.
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

    /// Returns the kernel's clock source if it is no longer this counter: the kernel leaves a
    /// counter that it finds unstable, and never returns to it.
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

    /// Returns the best of several attempts: the wall clock read between the two counter reads that
    /// are closest together. The error is at most half of their distance.
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

/// Returns the kernel's clock source, if it can be read.
fn kernel_counts_by() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = with_spare(|| std::fs::read_to_string(path)).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Line from counter to wall, and the samples that it is based on.
#[derive(Clone, Copy)]
pub(crate) struct Calibration {
    first: Sample,
    map: ClockMap<CounterScale, Wall>,
}

impl Calibration {
    /// Takes two samples, five milliseconds apart: accurate to some 10 ppm, which the first
    /// [`Self::steered`] improves.
    pub(crate) fn start(counter: Counter) -> Self {
        let first = counter.sample();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let second = counter.sample();
        let rate = rate_between(first, second);
        let map = ClockMap::new(Instant::from_ticks(second.ticks), second.wall, rate);
        Self { first, map }
    }

    /// Returns the line in force.
    pub(crate) fn map(&self) -> ClockMap<CounterScale, Wall> {
        self.map
    }

    /// Checks that a page can show a clock of this dilation, given its maximum of nanoseconds per
    /// tick.
    ///
    /// # Errors
    /// Fails if only a slower clock could be shown.
    pub(crate) fn check_pace(&self, dilation: f64) -> Result<(), GuestError> {
        let least = self.map.rate.as_f64() / PAGE_NS_PER_TICK * MARGIN;
        // As printed in the message: six digits, rounded up.
        let least = (least * 1e6).ceil() / 1e6;
        if dilation >= least {
            return Ok(());
        }
        Err(GuestError::Usage(format!(
            "a dilation of {dilation} is faster than a clock page can show on this machine; give at least {least} (where programs mostly wait, time can skip instead)"
        )))
    }

    /// Returns the line from `sample` on: the rate over the whole time since the first sample, bent
    /// so that the present error vanishes within a second. The bend is at most 500 ppm: a machine
    /// that was suspended catches up slowly, but guests never see a jump.
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

/// The machine's time-stamp counter against its CLOCK_MONOTONIC_RAW, which the kernel derives from
/// it (where it is the clock source) by its frequency alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TscLine {
    /// Counter value at the clock's zero, modulo 2^64.
    pub(crate) tsc0: u64,
    /// Ticks per nanosecond.
    pub(crate) per_ns: Rate,
}

impl TscLine {
    /// Takes two samples, 50 ms apart: accurate to about a millionth.
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

/// Maximum that a page holds: eight bits before the point.
const PAGE_NS_PER_TICK: f64 = 256.0;

/// Margin for bends while following the machine's clock, and for an oscillator's error.
const MARGIN: f64 = 1.01;

fn rate_between(from: Sample, to: Sample) -> Rate {
    let wall_ns = (to.wall - from.wall).as_ns().max(1) as u64;
    Rate::from_ratio(wall_ns, (to.ticks - from.ticks).max(1)).expect("at least one tick")
}
