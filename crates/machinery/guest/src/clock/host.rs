//! A host as others see it: its clocks, read from its own clock page.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use timeloom_clock::host::Crystal;
use timeloom_time::Duration;

use super::calibration::Counter;
use crate::linux::memory::PageMapping;

/// How a host's clock differs from an ideal one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostOptions {
    /// What its kernel counts.
    pub crystal: Crystal,
    /// Where the crystal's randomness comes from.
    pub seed: u64,
    /// How much its CLOCK_REALTIME is ahead of true civil time at the start.
    pub offset: Duration,
}

/// A host of a session: a clock that its guests read.
pub struct Host {
    pub(super) name: String,
    pub(super) index: usize,
    pub(super) page: PageMapping,
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

/// Which clock of a host an instant is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// Its page's "virtual time", which nothing sets.
    Monotonic,
    Realtime,
    Tai,
}

/// An instant on a clock of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostInstant {
    pub(crate) host: usize,
    pub(crate) base: Base,
    pub(crate) ns: i64,
}

impl Host {
    /// Its name; that of the session's only host is empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn page(&self) -> &PageMapping {
        &self.page
    }

    /// What the clock of `base` shows its guests now.
    pub(crate) fn now_ns(&self, base: Base) -> i64 {
        let (now, offset) = self.page.page().read(
            || self.counter.ticks(),
            |copy| match base {
                Base::Monotonic => 0,
                Base::Realtime => copy.realtime_offset_ns.load(Ordering::Relaxed),
                Base::Tai => copy.tai_offset_ns.load(Ordering::Relaxed),
            },
        );
        now + offset
    }

    /// What CLOCK_MONOTONIC_RAW shows its guests now.
    pub(crate) fn raw_ns(&self) -> i64 {
        self.page.page().read_raw(|| self.counter.ticks())
    }

    /// The POSIX clock `id` minus [`Base::Monotonic`], in nanoseconds.
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
