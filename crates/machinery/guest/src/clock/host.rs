//! Public view of a host: its clocks, read from its own clock page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use timeloom_clock::counter::CycleOptions;
use timeloom_clock::host::Crystal;
use timeloom_page::Shown;
use timeloom_time::{ClockMap, Core, Duration, Instant};

use super::calibration::Counter;
use super::host_instant::Base;
use crate::linux::memory::PageMapping;

/// Deviations of a host's clock from an ideal one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostOptions {
    /// Oscillator that its kernel counts.
    pub crystal: Crystal,
    /// Core driven by the oscillator, if its kernel counts the core's cycles.
    pub cycles: Option<CycleOptions>,
    /// Seed of the random numbers of the oscillator and of a governor.
    pub seed: u64,
    /// Lead of its CLOCK_REALTIME over true civil time at the start.
    pub offset: Duration,
}

/// A host of a session: a clock that its guests read.
pub struct Host {
    pub(super) name: String,
    pub(super) index: usize,
    pub(super) page: PageMapping<Shown>,
    pub(super) counter: Counter,
    /// True if a program has requested a congestion control.
    pub(super) has_requested_congestion_control: AtomicBool,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A host's clock against true time.
#[derive(Clone)]
pub struct HostReading {
    /// The host.
    pub host: Arc<Host>,
    /// Lead of its CLOCK_REALTIME over true civil time.
    pub error: Duration,
    /// Fraction by which its clocks run too fast.
    pub frequency_error: f64,
    /// Maximum lag of its CLOCK_MONOTONIC_RAW behind its oscillator, if it counts a core's cycles.
    pub missing: Option<Duration>,
    /// Error bounds stated by its kernel, if that considers itself synchronised.
    pub believed: Option<Belief>,
}

/// Error bounds of a clock as stated by its kernel and set by a daemon.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    /// `timex.esterror`.
    pub estimated_error: Duration,
    /// `timex.maxerror`.
    pub maximum_error: Duration,
}

impl Host {
    /// Returns true if a program of this host requested a congestion control (TCP_CONGESTION) where
    /// connections are paced by acknowledgements alone: it does not want the machine's default.
    pub fn has_requested_congestion_control(&self) -> bool {
        self.has_requested_congestion_control
            .load(Ordering::Relaxed)
    }

    pub(crate) fn note_congestion_request(&self) {
        self.has_requested_congestion_control
            .store(true, Ordering::Relaxed);
    }

    /// Returns the name; empty for the only host of a session without named hosts.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the host's number in the session, which is on its clock page.
    pub fn number(&self) -> u32 {
        self.index as u32
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn page(&self) -> &PageMapping<Shown> {
        &self.page
    }

    /// Returns the time that its page shows now.
    pub(crate) fn now(&self) -> Instant<Shown> {
        self.page.page().read(|| self.counter.ticks(), |_| ()).0
    }

    /// Returns the time that its clock `B` shows now.
    pub(crate) fn now_on<B: Base>(&self) -> Instant<B> {
        let (now, offset_ns) = self.page.page().read(|| self.counter.ticks(), B::offset_ns);
        ClockMap::ahead_by(Duration::from_ns(offset_ns)).at(now)
    }

    /// Returns the lead of its clock `B` over its page's time, in nanoseconds.
    pub(super) fn ahead_ns<B: Base>(&self) -> i64 {
        self.page
            .page()
            .read(|| self.counter.ticks(), B::offset_ns)
            .1
    }

    /// Returns the CLOCK_MONOTONIC_RAW that its guests see now.
    pub(crate) fn raw(&self) -> Instant<Core> {
        self.page.page().read_raw(|| self.counter.ticks())
    }

    /// Returns the POSIX clock `id` minus its page's time, in nanoseconds.
    pub(crate) fn offset_ns(&self, id: libc::clockid_t) -> i64 {
        let offset = |copy: &timeloom_page::MapCopy| {
            match id {
                libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM => &copy.realtime_offset_ns,
                libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM => &copy.boottime_offset_ns,
                libc::CLOCK_TAI => &copy.tai_offset_ns,
                _ => &copy.monotonic_offset_ns,
            }
            .load(Ordering::Relaxed)
        };
        self.page.page().read(|| self.counter.ticks(), offset).1
    }
}
