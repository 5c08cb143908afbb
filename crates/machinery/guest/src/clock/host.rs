//! A host as others see it: its clocks, read from its own clock page.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use timeloom_clock::counter::CycleOptions;
use timeloom_clock::host::Crystal;
use timeloom_page::Shown;
use timeloom_time::{ClockMap, Core, Duration, Instant};

use super::calibration::Counter;
use super::host_instant::Base;
use crate::linux::memory::PageMapping;

/// How a host's clock differs from an ideal one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostOptions {
    /// What its kernel counts.
    pub crystal: Crystal,
    /// The core that the crystal drives, if its kernel counts the core's cycles.
    pub cycles: Option<CycleOptions>,
    /// Where the crystal's randomness comes from, and a governor's.
    pub seed: u64,
    /// How much its CLOCK_REALTIME is ahead of true civil time at the start.
    pub offset: Duration,
}

/// A host of a session: a clock that its guests read.
pub struct Host {
    pub(super) name: String,
    pub(super) index: usize,
    pub(super) page: PageMapping<Shown>,
    pub(super) counter: Counter,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A host's clock against true time.
#[derive(Clone)]
pub struct HostReading {
    /// Whose.
    pub host: Arc<Host>,
    /// How far its CLOCK_REALTIME is ahead of true civil time.
    pub error: Duration,
    /// How much too fast its clocks run, as a fraction.
    pub frequency_error: f64,
    /// How far its CLOCK_MONOTONIC_RAW may be behind its crystal, if it counts a core's
    /// cycles.
    pub missing: Option<Duration>,
    /// What is believed of it, if its kernel holds it for synchronised.
    pub believed: Option<Belief>,
}

/// The bounds that a kernel states of its clock, as a daemon has set them.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    /// `timex.esterror`.
    pub estimated_error: Duration,
    /// `timex.maxerror`.
    pub maximum_error: Duration,
}

impl Host {
    /// Its name; that of the session's only host is empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in the session, which is on its clock page.
    pub fn number(&self) -> u32 {
        self.index as u32
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn page(&self) -> &PageMapping<Shown> {
        &self.page
    }

    /// What its page shows now.
    pub(crate) fn now(&self) -> Instant<Shown> {
        self.page.page().read(|| self.counter.ticks(), |_| ()).0
    }

    /// What its clock `B` shows now.
    pub(crate) fn now_on<B: Base>(&self) -> Instant<B> {
        let (now, offset_ns) = self.page.page().read(|| self.counter.ticks(), B::offset_ns);
        ClockMap::ahead_by(Duration::from_ns(offset_ns)).at(now)
    }

    /// How far its clock `B` is ahead of what its page shows, in nanoseconds.
    pub(super) fn ahead_ns<B: Base>(&self) -> i64 {
        self.page
            .page()
            .read(|| self.counter.ticks(), B::offset_ns)
            .1
    }

    /// What CLOCK_MONOTONIC_RAW shows its guests now.
    pub(crate) fn raw(&self) -> Instant<Core> {
        self.page.page().read_raw(|| self.counter.ticks())
    }

    /// The POSIX clock `id` minus what the page shows, in nanoseconds.
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
