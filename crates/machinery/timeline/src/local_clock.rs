//! The free-running clock that all timelines of a daemon use: this machine's, or in a
//! session the crystal of the host on which the daemon is a guest.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use timeloom_clock::oscillator::OscillatorSpec;
use timeloom_clock::timeline::LocalNow;
use timeloom_clock::{Core, RateError};
use timeloom_publish::{CoreScale, Domain, PageCounter, Refusal, host_disruptions, now_ticks};
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{ClockMap, Duration, Instant, Rate};

/// The core clock: the processor's counter where the kernel trusts it, else
/// CLOCK_MONOTONIC; for a guest its host's CLOCK_MONOTONIC_RAW. With the signs of a
/// machine, or a host, that is not what it was.
#[derive(Debug)]
pub struct LocalClock {
    kind: PageCounter,
    scale: CoreScale,
    /// BOOTTIME less MONOTONIC when it could last be read exactly.
    suspended_ns: AtomicI64,
    hypervisor: Option<std::fs::File>,
    /// The hypervisor's marker when it was last seen.
    marker: AtomicU64,
}

/// Two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The core clock, not after the other clock was read.
    pub(crate) before: Instant<Core>,
    /// The other clock.
    pub(crate) other_ns: i64,
    /// The core clock, not before the other clock was read.
    pub(crate) after: Instant<Core>,
}

impl LocalClock {
    /// The best counter where this program lives.
    ///
    /// # Errors
    /// When that is not known.
    pub fn here() -> Result<Self, Refusal> {
        Ok(match Domain::here()? {
            Domain::Machine { .. } => Self::of_this_machine(),
            Domain::Host { .. } => Self::with(PageCounter::HostRaw, NANOSECONDS),
        })
    }

    /// The best counter of this machine.
    pub fn of_this_machine() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Ok(scale) = timeloom_publish::Tsc::trusted().and_then(|tsc| tsc.calibrate()) {
            return Self::with(PageCounter::Tsc, scale);
        }
        Self::monotonic()
    }

    /// CLOCK_MONOTONIC, which the kernel steers by up to 500 ppm.
    pub fn monotonic() -> Self {
        Self::with(PageCounter::Monotonic, NANOSECONDS)
    }

    fn with(kind: PageCounter, scale: CoreScale) -> Self {
        let clock = Self {
            kind,
            scale,
            suspended_ns: AtomicI64::new(0),
            // The machine's: no guest's time rests on it.
            hypervisor: (kind != PageCounter::HostRaw)
                .then(|| std::fs::File::open("/dev/vmclock0").ok())
                .flatten(),
            marker: AtomicU64::new(0),
        };
        clock.now();
        clock
    }

    /// On a machine whose hypervisor has this page, which a test writes.
    #[cfg(test)]
    pub(crate) fn under(hypervisor: std::fs::File) -> Self {
        Self {
            hypervisor: Some(hypervisor),
            ..Self::monotonic()
        }
    }

    /// Which counter it is.
    pub fn kind(&self) -> PageCounter {
        self.kind
    }

    /// The counter as the core clock.
    pub fn scale(&self) -> CoreScale {
        self.scale
    }

    /// The core clock now.
    pub fn core(&self) -> Instant<Core> {
        self.core_at(now_ticks(self.kind))
    }

    /// The core clock at a reading of the counter.
    pub fn core_at(&self, ticks: u64) -> Instant<Core> {
        self.scale.at(Instant::from_ticks(ticks))
    }

    /// What has to be added to an oscillator's statement when this is its clock:
    /// a steered clock may be 500 ppm off and knows no stability.
    pub fn oscillator(&self, stated: OscillatorSpec) -> OscillatorSpec {
        if self.kind == PageCounter::Monotonic {
            let steered = RateError::from_ppb(500_000);
            OscillatorSpec {
                max_error: stated.max_error + steered,
                stability: None,
            }
        } else {
            stated
        }
    }

    /// All that a keeper looks at.
    pub fn now(&self) -> LocalNow {
        let marker = self.marker();
        let suspended = Duration::from_ns(self.suspended_ns());
        // Where the counter is the processor's, the kernel's own view of raw
        // time is a witness: it leaves a counter that it finds unstable.
        let witness = (self.kind == PageCounter::Tsc)
            .then(|| self.pair(ClockId::MonotonicRaw))
            .filter(|pair| pair.after - pair.before < SAME_MOMENT);
        LocalNow {
            core: witness.map_or_else(|| self.core(), |pair| pair.after),
            marker,
            suspended,
            witness: witness.map(|pair| Instant::from_ns(pair.other_ns)),
        }
    }

    /// CLOCK_REALTIME between two readings of the core clock, the closest of a few.
    pub(crate) fn realtime(&self) -> Pair {
        self.pair(ClockId::Realtime)
    }

    /// The closest of a few looks.
    fn pair(&self, other: ClockId) -> Pair {
        let look = || {
            let before = self.core();
            let other_ns = read_ns(other);
            let after = self.core();
            Pair {
                before,
                other_ns,
                after,
            }
        };
        let mut best = look();
        for _ in 0..3 {
            let next = look();
            if next.after - next.before <= best.after - best.before {
                best = next;
            }
        }
        best
    }

    /// Time in suspend since boot; what it was when the machine is too busy to
    /// tell.
    fn suspended_ns(&self) -> i64 {
        for _ in 0..8 {
            let before_ns = read_ns(ClockId::Monotonic);
            let boot_ns = read_ns(ClockId::Boottime);
            let after_ns = read_ns(ClockId::Monotonic);
            if after_ns - before_ns < SAME_MOMENT.as_ns() {
                self.suspended_ns.store(boot_ns - after_ns, Relaxed);
                break;
            }
        }
        self.suspended_ns.load(Relaxed)
    }

    /// The word for "this machine is another one now": the hypervisor's, from
    /// `/dev/vmclock0`, the disruption marker and the generation counter; or the
    /// session's, which holds and slows its hosts one by one.
    pub(crate) fn marker(&self) -> u64 {
        if self.kind == PageCounter::HostRaw {
            if let Ok(Some(disruptions)) = host_disruptions() {
                self.marker.store(disruptions, Relaxed);
            }
            return self.marker.load(Relaxed);
        }
        let Some(file) = &self.hypervisor else {
            return 0;
        };
        use std::os::unix::fs::FileExt;
        let mut page = [0u8; 112];
        if file.read_at(&mut page, 0).is_ok_and(|read| read >= 104) {
            let word = |at: usize| {
                page[at..at + 8]
                    .iter()
                    .rev()
                    .fold(0u64, |w, b| w << 8 | u64::from(*b))
            };
            self.marker
                .store(word(16) ^ word(104).rotate_left(32), Relaxed);
        }
        self.marker.load(Relaxed)
    }
}

/// The scale of a counter that counts nanoseconds.
const NANOSECONDS: CoreScale = ClockMap {
    in0: Instant::ZERO,
    out0: Instant::ZERO,
    rate: Rate::ONE,
};

/// Readings closer together than this count as of one moment; far below what
/// [`timeloom_clock::timeline::WatchLimits`] allows for.
const SAME_MOMENT: Duration = Duration::from_us(200);

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_clock::timeline::WatchLimits;

    #[test]
    fn an_undisturbed_machine_looks_undisturbed() {
        for clock in [LocalClock::of_this_machine(), LocalClock::monotonic()] {
            let limits = WatchLimits::default();
            let mut seen = clock.now();
            for _ in 0..2000 {
                let now = clock.now();
                assert_eq!(
                    seen.disturbance_until(&now, &limits),
                    None,
                    "{seen:?} {now:?}"
                );
                seen = now;
            }
            let pair = clock.realtime();
            assert!(pair.before <= pair.after);
        }
    }
}
