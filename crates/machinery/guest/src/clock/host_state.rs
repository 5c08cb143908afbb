//! What the supervisor keeps of a host, and how it becomes a line on its page.
//!
//! Four maps, composed: counter → virtual (the session's), virtual → lived (the
//! host's [`Course`]), lived → the host's clocks (its crystal and its kernel).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use timeloom_clock::Lived;
use timeloom_clock::course::Course;
use timeloom_clock::host::{HostClock, HostClockOptions, HostLine};
use timeloom_clock::kernel::KernelClockOptions;
use timeloom_page::PageMap;
use timeloom_time::{ClockMap, Counter, Duration, Instant, Rate, Virtual, Wall};

use super::host::{Base, Host, HostInstant, HostOptions};
use super::{Offsets, State, calibration};
use crate::linux::memory::PageMapping;

/// What the supervisor keeps of a host.
pub(super) struct HostState {
    pub(super) host: Arc<Host>,
    /// How its own time passes.
    pub(super) course: Course,
    /// The number of its end, if its course has one.
    pub(super) end: u64,
    pub(super) model: HostClock,
    line: HostLine,
    /// The latest instant of the session that the model was asked for.
    asked: Instant<Virtual>,
    /// counter → its virtual time, and → its CLOCK_MONOTONIC_RAW, as readers
    /// have it.
    published: Option<PageMap>,
    offsets: Offsets,
    /// Steps and leap seconds that were told already.
    pub(super) discontinuities: u64,
    /// The slowest that its clock went since those who wait by it were last told.
    slowest: Rate,
    /// Whether it has become noticeably faster than that.
    has_sped_up: bool,
}

/// What is put on all pages at one instant.
pub(super) struct Moment {
    /// counter → virtual, from that instant on.
    pub(super) virtual_map: ClockMap<Counter, Virtual>,
    /// Where virtual time stops by itself.
    pub(super) ceiling: Instant<Virtual>,
    /// Virtual per wall while running.
    pub(super) running: Rate,
    /// The machine's clock then.
    pub(super) wall: Instant<Wall>,
    /// Virtual per wall from then on.
    pub(super) virtual_per_wall: Rate,
}

impl HostState {
    pub(super) fn new(
        host: Arc<Host>,
        options: &HostOptions,
        offsets: Offsets,
        tai_s: i32,
    ) -> Self {
        let raw_ns = calibration::clock_ns(libc::CLOCK_MONOTONIC_RAW);
        let realtime_ns = offsets.realtime_ns + options.offset.as_ns();
        let mut model = HostClock::new(&HostClockOptions {
            kernel: KernelClockOptions {
                raw: Instant::from_ns(raw_ns),
                monotonic: Instant::from_ns(offsets.monotonic_ns),
                realtime: Instant::from_ns(realtime_ns.max(offsets.monotonic_ns)),
                tai_s,
                ticks_per_s: TICKS_PER_S,
            },
            crystal: options.crystal,
            seed: options.seed,
        });
        Self {
            line: model.line(Instant::ZERO),
            host,
            course: Course::default(),
            end: 0,
            asked: Instant::ZERO,
            model,
            published: None,
            offsets,
            discontinuities: 0,
            slowest: Rate::ONE,
            has_sped_up: false,
        }
    }

    pub(super) fn page(&self) -> &PageMapping {
        self.host.page()
    }

    /// What its page has to show from the moment on.
    pub(super) fn compose(&mut self, moment: &Moment) -> PageMap {
        let Moment {
            virtual_map,
            ceiling,
            running,
            ..
        } = moment;
        let ticks = virtual_map.in0;
        self.asked = virtual_map.out0;
        let now = of_model(self.course.at(self.asked));
        self.line = self.model.line(now);
        let start_ns = self.offsets.monotonic_ns;
        let mut shown = Instant::from_ns(self.line.monotonic.out0.as_ns() - start_ns);
        // Readers saw the old line: rounded differently, and perhaps for a
        // moment longer than it was to be in force.
        let floor = self.published.map_or(shown, |last| last.at(ticks));
        if floor > shown {
            if floor - shown > ROUNDING {
                self.model.absorb(now, floor - shown);
                self.line = self.model.line(now);
            }
            shown = floor;
        }
        let raw_ns = self.line.core.out0.as_ns();
        let raw0_ns = self
            .published
            .map_or(raw_ns, |last| last.raw_at_ns(ticks).max(raw_ns));
        let lived_per_tick = virtual_map.rate.times(self.course.rate());
        // What its clocks show where its time stops, or the session's.
        let stop = if *ceiling == Instant::FAR_FUTURE {
            self.course.end()
        } else {
            self.course.at(*ceiling)
        };
        let (mut last, mut raw_last_ns) = (Instant::FAR_FUTURE, i64::MAX);
        if stop != Instant::FAR_FUTURE {
            let stop = of_model(stop);
            let monotonic_ns = self.line.monotonic.at(stop).as_ns();
            last = Instant::from_ns(monotonic_ns - start_ns).max(shown);
            raw_last_ns = self.line.core.at(stop).as_ns().max(raw0_ns);
        }
        let map = PageMap {
            map: ClockMap::new(ticks, shown, lived_per_tick.times(self.line.monotonic.rate)),
            ceiling: last,
            wall_per_virtual: running
                .times(self.course.running())
                .times(self.line.monotonic.rate)
                .inverse()
                .unwrap_or(Rate::ONE),
            realtime_offset_ns: start_ns + self.line.realtime_offset_ns,
            monotonic_offset_ns: start_ns,
            boottime_offset_ns: self.offsets.boottime_ns,
            tai_offset_ns: start_ns + self.line.tai_offset_ns,
            raw0_ns,
            raw_rate: lived_per_tick.times(self.line.core.rate),
            raw_ceiling_ns: raw_last_ns,
        };
        self.published = Some(map);
        map
    }

    /// Opens the page that was closed.
    pub(super) fn open(&mut self, moment: &Moment) {
        let map = self.compose(moment);
        self.compare_rate();
        let page = self.host.page().page();
        let steered = self.model.next_wake().is_some();
        page.steered.fetch_or(u32::from(steered), Ordering::Relaxed);
        self.record(moment, &map);
        page.open(&map);
    }

    /// Who waits has computed for how long from the rate of then: too long, if the
    /// clock goes faster now.
    fn compare_rate(&mut self) {
        let rate = self.line.monotonic.rate;
        self.slowest = self.slowest.min(rate);
        self.has_sped_up |= rate.as_f64() > self.slowest.as_f64() * (1.0 + NOTICEABLE);
    }

    /// Notes the line for those who ask what the clock showed at a past instant
    /// of the machine.
    pub(super) fn record(&self, moment: &Moment, map: &PageMap) {
        let lived_per_wall = moment.virtual_per_wall.times(self.course.rate());
        let rate = lived_per_wall.times(self.line.monotonic.rate);
        let past = &self.host.page().page().past;
        past.record(moment.wall, map.map.out0, rate);
    }

    /// When this instant of the host comes, as its clock goes now.
    pub(super) fn when(&self, at: HostInstant) -> Option<Instant<Virtual>> {
        let monotonic_ns = match at.base {
            Base::Monotonic => at.ns.saturating_add(self.offsets.monotonic_ns),
            Base::Realtime => at.ns.saturating_sub(self.line.realtime_offset_ns),
            Base::Tai => at.ns.saturating_sub(self.line.tai_offset_ns),
        };
        let at = Instant::from_ns(monotonic_ns);
        let at = self.line.monotonic.first_reaching(at)?;
        self.course.first_reaching(lived(at))
    }

    /// When its clocks change by themselves next, if they do.
    pub(super) fn next_wake(&self) -> Option<Instant<Virtual>> {
        let at = self.model.next_wake()?;
        self.course.first_reaching(lived(at))
    }

    /// Those who wait by its clock compute anew for how long.
    pub(super) fn take_sped_up(&mut self) -> bool {
        let has_sped_up = std::mem::take(&mut self.has_sped_up);
        if has_sped_up {
            self.slowest = self.line.monotonic.rate;
        }
        has_sped_up
    }

    /// An instant of the session, but not before one that the model was asked for.
    pub(super) fn not_before_asked(&self, now: Instant<Virtual>) -> Instant<Virtual> {
        now.max(self.asked)
    }
}

impl State {
    /// The session's clock as it is published, for a page that is to change at
    /// `ticks`.
    pub(super) fn moment(&self, ticks: Instant<Counter>) -> Moment {
        Moment {
            virtual_map: ClockMap::new(ticks, self.published.at(ticks), self.published.map.rate),
            ceiling: self.published.ceiling,
            running: self.rate,
            wall: self.calibration.map().at(ticks),
            virtual_per_wall: self.map.rate,
        }
    }
}

/// For its model, which knows of no other, a host's own time is virtual time.
pub(super) fn of_model(at: Instant<Lived>) -> Instant<Virtual> {
    Instant::from_ns(at.as_ns())
}

fn lived(of_model: Instant<Virtual>) -> Instant<Lived> {
    Instant::from_ns(of_model.as_ns())
}

/// CONFIG_HZ of the kernels that hosts are taken to run; it shows in the last
/// digits of what `adjtimex` does.
const TICKS_PER_S: u32 = 250;

/// Two lines that agree may round this differently.
const ROUNDING: Duration = Duration::from_ns(50);

/// A hundred ppm: a microsecond in a wait of 10 ms. Longer waits on a steered clock
/// are made in turns, which follow smaller changes.
const NOTICEABLE: f64 = 100e-6;
