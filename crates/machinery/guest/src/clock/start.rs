//! Start of a session's clock: calibration, virtual time zero, and the offsets of the guests'
//! clocks.

use parking_lot::{Condvar, Mutex};
use std::hash::BuildHasher;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use timeloom_abi::PageMap;
use timeloom_sys::clock::{ClockId, civil_state, read_ns};
use timeloom_time::{ClockMap, Dilation, Duration, Instant, LeapSeconds, Rate, Utc, Virtual};

use super::calibration::{Calibration, Counter, TscLine};
use super::file_dates::FileDates;
use super::history::History;
use super::options::{ClockOptions, Compute, FileTimes, Tsc};
use super::{Clock, State, compose};
use crate::error::GuestError;
use crate::linux::memory::PageMapping;

/// Differences between a guest's clocks and virtual time, for a host whose clock has no error.
#[derive(Clone, Copy)]
pub(super) struct Offsets {
    pub(super) realtime_ns: i64,
    pub(super) monotonic_ns: i64,
    pub(super) boottime_ns: i64,
    /// TAI minus UTC, in seconds.
    pub(super) tai_s: i32,
}

impl Offsets {
    pub(super) fn tai_ns(self) -> i64 {
        self.realtime_ns + i64::from(self.tai_s) * 1_000_000_000
    }
}

impl Clock {
    /// Creates the clock: calibrates it against the machine's clock (which takes some milliseconds)
    /// and publishes virtual time zero.
    ///
    /// # Errors
    /// Fails if the dilation is not within 0.000001 … 1000000.
    pub(crate) fn new(
        page: Arc<PageMapping<Virtual>>,
        options: &ClockOptions,
    ) -> Result<Self, GuestError> {
        let rate = dilation(options.dilation)?.rate();
        // If reads of the counter trap, those of the image would trap as well, so it uses another
        // counter.
        let (counter, tsc) = match options.tsc {
            Tsc::Native => (Counter::detect(), None),
            Tsc::Emulate if cfg!(not(target_arch = "x86_64")) => {
                return Err(GuestError::Unsupported(
                    "the counter that programs read themselves (on ARM CNTVCT_EL0) is emulated on x86-64 only, and the machine's here; run without `--tsc emulate`".into(),
                ));
            }
            Tsc::Emulate => (Counter::MONOTONIC, Some(TscLine::measure())),
        };
        let calibration = Calibration::start(counter);
        calibration.check_pace(options.dilation)?;
        let started = calibration.map().in0;
        let wall0 = calibration.map().out0;
        let map = ClockMap::new(
            wall0,
            Instant::ZERO,
            if options.paused || options.compute == Compute::None {
                Rate::STOPPED
            } else {
                rate
            },
        );
        let offsets = offsets_at_start(options);
        let nothing = PageMap {
            map: ClockMap::new(started, Instant::ZERO, Rate::STOPPED),
            ceiling: Instant::FAR_FUTURE,
            wall_per_shown: Rate::ONE,
            realtime_offset_ns: 0,
            monotonic_offset_ns: 0,
            boottime_offset_ns: 0,
            tai_offset_ns: 0,
            raw0: Instant::ZERO,
            raw_rate: Rate::STOPPED,
            raw_ceiling: Instant::FAR_FUTURE,
        };
        let calibrated = calibration.map();
        let mut state = State {
            map,
            published: nothing,
            ceiling: Instant::FAR_FUTURE,
            stop: None,
            planned_stop: None,
            bound: Instant::FAR_FUTURE,
            end: Instant::FAR_FUTURE,
            rate,
            compute: options.compute,
            computed: Duration::ZERO,
            dilation: options.dilation,
            paused_since: options.paused.then_some(wall0),
            paused_total: Duration::ZERO,
            started: wall0,
            offsets,
            history: History::new(map),
            awaited: Vec::new(),
            announced: None,
            waits: 0,
            hosts: Vec::new(),
            file_dates: (options.files == FileTimes::Virtual).then(|| FileDates::new(wall0)),
            calibration,
        };
        let first = compose(&calibrated, &state, started.as_ticks(), Instant::ZERO);
        state.published = first;
        page.page().initialise(counter.kind(), &first);
        Ok(Self {
            page,
            counter,
            distrusted: OnceLock::new(),
            number: drawn(),
            tsc,
            state: Mutex::new(state),
            changed: Condvar::new(),
            woken: Condvar::new(),
            listeners: Mutex::default(),
            dilation_listeners: Mutex::default(),
            host_listeners: Mutex::default(),
            host_version: AtomicU64::new(0),
            stops: AtomicU64::new(0),
        })
    }
}

/// Returns a random number, which is not zero, for the session. The standard library seeds its
/// hashers from the kernel's random bytes.
fn drawn() -> u64 {
    let hasher = std::hash::RandomState::new();
    hasher.hash_one((std::process::id(), read_ns(ClockId::Boottime))) | 1
}

/// Returns the dilation by `factor`.
///
/// # Errors
/// Fails if the factor is not within 0.000001 … 1000000.
pub(super) fn dilation(factor: f64) -> Result<Dilation, GuestError> {
    Dilation::new(factor).ok_or_else(|| {
        GuestError::Usage(format!(
            "a dilation of {factor} is not possible; give the wall seconds per virtual second, from {:.6} to {}",
            Dilation::LEAST, Dilation::MOST
        ))
    })
}

fn offsets_at_start(options: &ClockOptions) -> Offsets {
    let realtime_ns = read_ns(ClockId::Realtime);
    let realtime_start = options.start.map_or(realtime_ns, Instant::as_ns);
    let assumed = (options.compute == Compute::None).then_some(ClockOptions::UP_FOR);
    let up_for = options.up_for.or(assumed);
    let since_boot_ns = |clock| up_for.map_or_else(|| read_ns(clock), Duration::as_ns);
    Offsets {
        realtime_ns: realtime_start,
        monotonic_ns: since_boot_ns(ClockId::Monotonic),
        boottime_ns: since_boot_ns(ClockId::Boottime),
        tai_s: tai_s_at_start(options.start),
    }
}

/// Returns TAI minus UTC at the start of a session, in seconds. If a start date was requested, this
/// is the value at that date, whatever the machine's kernel states; otherwise the value that the
/// machine's programs see.
fn tai_s_at_start(start: Option<Instant<Utc>>) -> i32 {
    match start {
        // Before 1972 the offset was not a whole number of seconds.
        Some(start) => LeapSeconds::built_in().offset_at(start).unwrap_or(0).into(),
        None => civil_state().map_or(0, |state| state.tai_offset_s),
    }
}
