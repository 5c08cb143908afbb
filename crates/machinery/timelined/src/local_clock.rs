//! Free-running clock that all timelines of a daemon use. This is the machine's counter, or in a
//! session the oscillator of the host on which the daemon runs as a guest.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use timeloom_clock::oscillator::OscillatorSpec;
use timeloom_clock::timeline::LocalNow;
use timeloom_clock::{Core, RateError};
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{ClockMap, Duration, Instant, Rate};
use timeloom_timeline::shm::{
    CoreScale, Domain, PageCounter, Refusal, host_disruptions, now_ticks,
};

/// The core clock: the processor's counter if the kernel trusts it, and CLOCK_MONOTONIC otherwise;
/// for a guest the CLOCK_MONOTONIC_RAW of its host. The readings include the signs that the machine
/// or host was replaced or stopped.
#[derive(Debug)]
pub struct LocalClock {
    kind: PageCounter,
    scale: CoreScale,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC at the last exact reading, in nanoseconds.
    suspended_ns: AtomicI64,
    hypervisor: Option<std::fs::File>,
    /// Value of the disruption marker at the last reading; see [`LocalClock::marker`].
    marker: AtomicU64,
}

/// Reading of two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Core clock before the other clock was read.
    pub(crate) before: Instant<Core>,
    /// Reading of the other clock, in nanoseconds.
    pub(crate) other_ns: i64,
    /// Core clock after the other clock was read.
    pub(crate) after: Instant<Core>,
}

impl LocalClock {
    /// Returns the best counter for this program's domain (the machine, or a host of a session).
    ///
    /// # Errors
    /// Fails if the domain cannot be determined.
    pub fn here() -> Result<Self, Refusal> {
        Ok(match Domain::here()? {
            Domain::Machine { .. } => Self::of_this_machine(),
            Domain::Host { .. } => Self::with(PageCounter::HostRaw, NANOSECONDS),
        })
    }

    /// Returns the best counter of this machine.
    pub fn of_this_machine() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Ok(scale) =
            timeloom_timeline::shm::TscClock::trusted().and_then(|tsc| tsc.calibrate())
        {
            return Self::with(PageCounter::Tsc, scale);
        }
        Self::monotonic()
    }

    /// Returns a clock that counts CLOCK_MONOTONIC, whose rate the kernel steers by up to 500 ppm.
    pub fn monotonic() -> Self {
        Self::with(PageCounter::Monotonic, NANOSECONDS)
    }

    fn with(kind: PageCounter, scale: CoreScale) -> Self {
        let clock = Self {
            kind,
            scale,
            suspended_ns: AtomicI64::new(0),
            // The hypervisor's page describes the machine; a guest's time does not depend on it.
            hypervisor: (kind != PageCounter::HostRaw)
                .then(|| std::fs::File::open("/dev/vmclock0").ok())
                .flatten(),
            marker: AtomicU64::new(0),
        };
        clock.now();
        clock
    }

    /// Returns the counter of a machine whose hypervisor page is this file, which a test writes.
    #[cfg(test)]
    pub(crate) fn under(hypervisor: std::fs::File) -> Self {
        Self {
            hypervisor: Some(hypervisor),
            ..Self::monotonic()
        }
    }

    /// Returns the kind of the counter.
    pub fn kind(&self) -> PageCounter {
        self.kind
    }

    /// Returns the map from counter values to the core clock.
    pub fn scale(&self) -> CoreScale {
        self.scale
    }

    /// Returns the present reading of the core clock.
    pub fn core(&self) -> Instant<Core> {
        self.core_at(now_ticks(self.kind))
    }

    /// Returns the reading of the core clock at which the counter had the value `ticks`.
    pub fn core_at(&self, ticks: u64) -> Instant<Core> {
        self.scale.at(Instant::from_ticks(ticks))
    }

    /// Adds this clock's own error to an oscillator's specification. A clock that the kernel steers
    /// may be off by a further 500 ppm and has no known stability.
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

    /// Reads all values that an estimator needs to detect disturbances.
    pub fn now(&self) -> LocalNow {
        let marker = self.marker();
        let suspended = Duration::from_ns(self.suspended_ns());
        // For the processor's counter, the kernel's raw time is a cross-check: the kernel abandons
        // a counter that it finds unstable.
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

    /// Reads CLOCK_REALTIME between two readings of the core clock; of a few attempts the one with
    /// the smallest gap.
    pub(crate) fn realtime(&self) -> Pair {
        self.pair(ClockId::Realtime)
    }

    /// Reads `other` between two readings of the core clock; of a few attempts the one with the
    /// smallest gap.
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

    /// Returns the time spent in suspend since boot, in nanoseconds. If the machine is too busy to
    /// determine it, the result is the previous value.
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

    /// Returns a marker that changes when the machine or host was disrupted. On a machine it
    /// combines the disruption marker and the generation counter of the hypervisor's page
    /// `/dev/vmclock0`. In a session it is the session's count for this host, because a session
    /// stops and slows its hosts individually.
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

/// Map of a counter that counts nanoseconds.
const NANOSECONDS: CoreScale = ClockMap {
    in0: Instant::ZERO,
    out0: Instant::ZERO,
    rate: Rate::ONE,
};

/// Maximum distance between readings of two clocks that count as simultaneous; far below the
/// tolerance of [`timeloom_clock::timeline::WatchLimits`].
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
