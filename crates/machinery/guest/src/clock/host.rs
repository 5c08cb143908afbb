//! Public view of a host: its clocks, read from its clock page.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use timeloom_abi::PageTime;
use timeloom_clock::counter::CycleOptions;
use timeloom_clock::host::HostOscillator;
use timeloom_time::{ClockMap, Core, Duration, Instant};

use super::calibration::Counter;
use super::card::Card;
use super::cards::CardReading;
use super::host_instant::Base;
use crate::linux::memory::PageMapping;

/// Deviations of a host's clock from an ideal one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostOptions {
    /// Oscillator by which the host's kernel keeps time.
    pub oscillator: HostOscillator,
    /// Options of the processor core whose cycles the host's kernel counts. `None` if the kernel
    /// counts the oscillator directly.
    pub cycles: Option<CycleOptions>,
    /// Seed of the random numbers of the oscillator and of a frequency governor.
    pub seed: u64,
    /// The host's CLOCK_REALTIME minus true civil time at the start.
    pub offset: Duration,
}

/// A host of a session: the clock that its guests read.
pub struct Host {
    pub(super) name: String,
    pub(super) index: usize,
    pub(super) page: PageMapping<PageTime>,
    pub(super) counter: Counter,
    /// True if a program has requested a TCP congestion control.
    pub(super) congestion_requests: AtomicU64,
    pub(super) keep_alive_after_s: AtomicU32,
    pub(super) card: OnceLock<Card>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Deviation of a host's clock from true time, at one instant.
#[derive(Clone)]
pub struct HostReading {
    /// Host of the reading.
    pub host: Arc<Host>,
    /// The host's CLOCK_REALTIME minus true civil time.
    pub error: Duration,
    /// Fraction by which the host's clocks run too fast.
    pub frequency_error: f64,
    /// Maximum lag of the host's CLOCK_MONOTONIC_RAW behind its oscillator. `None` unless its
    /// kernel counts a core's cycles.
    pub missing: Option<Duration>,
    /// Deviation of the clock of the host's network card; `None` if the host has no card of the
    /// model.
    pub card: Option<CardReading>,
    /// Error bounds stated by the host's kernel; `None` if the kernel does not consider itself
    /// synchronised.
    pub stated_error: Option<ErrorEstimate>,
}

/// Error bounds of a clock, as a daemon has set them and the kernel states them.
#[derive(Clone, Copy, Debug)]
pub struct ErrorEstimate {
    /// Estimated error: `timex.esterror`.
    pub estimated_error: Duration,
    /// Maximum error: `timex.maxerror`.
    pub maximum_error: Duration,
}

impl Host {
    /// Returns how often programs of this host requested a congestion control (TCP_CONGESTION) for
    /// a connection, in a session whose connections are paced by acknowledgements alone.
    pub fn congestion_requests(&self) -> u64 {
        self.congestion_requests.load(Ordering::Relaxed)
    }

    pub(crate) fn note_congestion_request(&self) {
        self.congestion_requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the shortest idle time after which a program of this host wants keep-alive probes on
    /// a connection (TCP_KEEPIDLE), in a session whose time skips over the kernel's TCP timers;
    /// `None` if no program has set it.
    pub fn keep_alive_after(&self) -> Option<Duration> {
        let seconds = self.keep_alive_after_s.load(Ordering::Relaxed);
        (seconds != u32::MAX).then(|| Duration::from_s(seconds.into()))
    }

    pub(crate) fn note_keep_alive(&self, seconds: u32) {
        self.keep_alive_after_s
            .fetch_min(seconds, Ordering::Relaxed);
    }

    /// Returns the name of the host; empty for the only host of a session without named hosts.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name for the log; `None` if the host has none.
    pub(crate) fn log_name(&self) -> Option<&str> {
        Some(self.name()).filter(|name| !name.is_empty())
    }

    /// Returns the host's network card, if it has one of the model.
    pub(crate) fn card(&self) -> Option<&Card> {
        self.card.get()
    }

    /// Gives the host a network card; returns false if it has one already.
    pub(crate) fn set_card(&self, card: Card) -> bool {
        self.card.set(card).is_ok()
    }

    /// Returns the number of the host in its session, which is also on its clock page.
    pub fn number(&self) -> u32 {
        self.index as u32
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn page(&self) -> &PageMapping<PageTime> {
        &self.page
    }

    /// Returns the time that the host's page shows now.
    pub(crate) fn now(&self) -> Instant<PageTime> {
        self.page.page().read(|| self.counter.ticks(), |_| ()).0
    }

    /// Returns the present time of the host's clock `B`.
    pub(crate) fn now_on<B: Base>(&self) -> Instant<B> {
        let (now, offset_ns) = self.page.page().read(|| self.counter.ticks(), B::offset_ns);
        ClockMap::ahead_by(Duration::from_ns(offset_ns)).at(now)
    }

    /// Returns the host's clock `B` minus the time on its page, in nanoseconds.
    pub(super) fn ahead_ns<B: Base>(&self) -> i64 {
        self.page
            .page()
            .read(|| self.counter.ticks(), B::offset_ns)
            .1
    }

    /// Returns the CLOCK_MONOTONIC_RAW that the host's guests see now.
    pub(crate) fn raw(&self) -> Instant<Core> {
        self.page.page().read_raw(|| self.counter.ticks())
    }

    /// Returns the host's POSIX clock `id` minus the time on its page, in nanoseconds.
    pub(crate) fn offset_ns(&self, id: libc::clockid_t) -> i64 {
        let offset = |copy: &timeloom_abi::MapCopy| {
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
