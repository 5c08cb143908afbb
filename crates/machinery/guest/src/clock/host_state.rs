//! Supervisor's state of a host, and the composition of its maps to one map on the host's page.
//!
//! Four maps are composed: counter → virtual (the session's), virtual → lived (the host's own time,
//! [`HostTimeMap`]), lived → the host's CLOCK_MONOTONIC (its oscillator and its kernel's clock),
//! and CLOCK_MONOTONIC → page time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use timeloom_abi::{PageMap, PageTime};
use timeloom_clock::Monotonic;
use timeloom_clock::host::{HostClock, HostClockOptions, HostLine};
use timeloom_clock::host_time_map::HostTimeMap;
use timeloom_clock::kernel::KernelClockOptions;
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{ClockMap, Core, Counter, Duration, Instant, Rate, Virtual, Wall};

use super::cards::CardState;
use super::file_dates::{DateLines, Onset};
use super::host::{Host, HostOptions};
use super::host_instant::{Base, HostDeadline};
use super::raw_history::RawHistory;
use super::{Offsets, State};
use crate::linux::memory::PageMapping;

/// Supervisor's state of a host.
pub(super) struct HostState {
    pub(super) host: Arc<Host>,
    /// Map from the session's virtual time to the host's own time.
    pub(super) time_map: HostTimeMap,
    /// Number of the host's end, if `time_map` has an end.
    pub(super) end: u64,
    pub(super) model: HostClock,
    /// Clock of the host's network card, if the host has a card of the model.
    pub(super) card: Option<CardState>,
    line: HostLine,
    /// Latest session time at which the model of the host's clock was evaluated.
    asked: Instant<Virtual>,
    /// Maps counter → page time and counter → CLOCK_MONOTONIC_RAW, as published for readers.
    published: Option<PageMap<PageTime>>,
    offsets: Offsets,
    pub(super) raw_history: RawHistory,
    /// Number of steps and leap seconds that were already reported.
    pub(super) discontinuities: u64,
    /// Maps from the machine's dates to the host's; used if dates of files are virtual.
    pub(super) date_lines: DateLines,
    /// Lowest rate of the host's clock since the threads that wait by it were last notified.
    slowest: Rate,
    /// True if the clock has become noticeably faster than `slowest`.
    has_sped_up: bool,
}

/// State of the session at the instant at which all pages change.
pub(super) struct Moment {
    /// Map counter → virtual, from the instant on.
    pub(super) virtual_map: ClockMap<Counter, Virtual>,
    /// Virtual time at which the session's clock stops by itself.
    pub(super) ceiling: Instant<Virtual>,
    /// Virtual time per wall time from which waiting threads compute their timeouts.
    pub(super) running: Rate,
    /// Wall time of the instant.
    pub(super) wall: Instant<Wall>,
    /// Virtual time per wall time, from the instant on.
    pub(super) virtual_per_wall: Rate,
    /// The wall instant as a file date of the machine; `Some` if dates of files are virtual.
    pub(super) onset: Option<Onset>,
}

impl HostState {
    pub(super) fn new(host: Arc<Host>, options: &HostOptions, offsets: Offsets) -> Self {
        let raw_ns = read_ns(ClockId::MonotonicRaw);
        let realtime_ns = offsets.realtime_ns + options.offset.as_ns();
        let mut model = HostClock::new(&HostClockOptions {
            kernel: KernelClockOptions {
                raw: Instant::from_ns(raw_ns),
                monotonic: Instant::from_ns(offsets.monotonic_ns),
                realtime: Instant::from_ns(realtime_ns.max(offsets.monotonic_ns)),
                tai_s: offsets.tai_s,
                ticks_per_s: TICKS_PER_S,
            },
            oscillator: options.oscillator,
            cycles: options.cycles.clone(),
            seed: options.seed,
        });
        Self {
            line: model.line(Instant::ZERO),
            host,
            time_map: HostTimeMap::default(),
            end: 0,
            asked: Instant::ZERO,
            model,
            card: None,
            published: None,
            offsets,
            raw_history: RawHistory::default(),
            discontinuities: 0,
            date_lines: DateLines::default(),
            slowest: Rate::ONE,
            has_sped_up: false,
        }
    }

    pub(super) fn page(&self) -> &PageMapping<PageTime> {
        self.host.page()
    }

    /// Returns the CLOCK_MONOTONIC_RAW that the host's guests read when the counter shows `ticks`.
    pub(super) fn raw_at(&self, ticks: Instant<Counter>) -> Instant<Core> {
        self.published
            .map_or(self.line.core.out0, |line| line.raw_at(ticks))
    }

    /// Returns the map for the host's page from this moment on.
    pub(super) fn compose(&mut self, moment: &Moment) -> PageMap<PageTime> {
        let Moment {
            virtual_map,
            ceiling,
            running,
            ..
        } = moment;
        let ticks = virtual_map.in0;
        self.asked = virtual_map.out0;
        let now = self.time_map.at(self.asked);
        if let Some(card) = &mut self.card {
            card.note(self.asked, &self.time_map);
        }
        self.line = self.model.line(now);
        // A core may have changed its frequency while readers still used the old map.
        let raw_seen = self.published.map(|last| last.raw_at(ticks));
        if let Some(ahead) = raw_seen.map(|seen| seen - self.line.core.out0)
            && ahead > ROUNDING
        {
            self.model.absorb_raw(now, ahead);
            self.line = self.model.line(now);
        }
        let start = self.start();
        let page = ClockMap::<Monotonic, PageTime>::ahead_by(-start);
        let mut shown = page.at(self.line.monotonic.out0);
        // Readers used the old map until now: it rounds differently, and was perhaps in force for a
        // moment longer than intended. The new map must not be below it.
        let floor = self.published.map_or(shown, |last| last.at(ticks));
        if floor > shown {
            if floor - shown > ROUNDING {
                self.model.absorb(now, floor - shown);
                self.line = self.model.line(now);
            }
            shown = floor;
        }
        let raw = self.line.core.out0;
        let raw0 = raw_seen.map_or(raw, |seen| seen.max(raw));
        let lived_per_tick = virtual_map.rate.times(self.time_map.rate());
        // Values of the host's clocks when its own time stops, or the session's.
        let stop = if *ceiling == Instant::FAR_FUTURE {
            self.time_map.end()
        } else {
            self.time_map.at(*ceiling)
        };
        let (mut last, mut raw_last) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
        if stop != Instant::FAR_FUTURE {
            last = page.at(self.line.monotonic.at(stop)).max(shown);
            raw_last = self.line.core.at(stop).max(raw0);
        }
        let map = PageMap {
            map: ClockMap::new(ticks, shown, lived_per_tick.times(self.line.monotonic.rate)),
            ceiling: last,
            wall_per_shown: running
                .times(self.time_map.running())
                .times(self.line.monotonic.rate)
                .inverse()
                .unwrap_or(Rate::ONE),
            realtime_offset_ns: (start + self.line.realtime_ahead).as_ns(),
            monotonic_offset_ns: start.as_ns(),
            boottime_offset_ns: self.offsets.boottime_ns,
            tai_offset_ns: (start + self.line.tai_ahead).as_ns(),
            raw0,
            raw_rate: lived_per_tick.times(self.line.core.rate),
            raw_ceiling: raw_last,
        };
        let raw_rate = self.time_map.rate().times(self.line.core.rate);
        self.raw_history
            .add(ClockMap::new(self.asked, map.raw0, raw_rate));
        self.published = Some(map);
        map
    }

    /// Puts the composed map in force and opens the closed page.
    pub(super) fn open(&mut self, moment: &Moment) {
        let map = self.compose(moment);
        self.compare_rate();
        let page = self.host.page().page();
        // Readers of the map that is published here see the disruption mark together with it.
        let own_pace =
            self.time_map.rate() != Rate::ONE || self.time_map.end() != Instant::FAR_FUTURE;
        let marked = page.disruptions().load(Ordering::Relaxed) & 1 == 1;
        if own_pace != marked {
            page.disruptions().fetch_add(1, Ordering::Relaxed);
        }
        let steered = self.model.next_wake().is_some();
        page.steered.fetch_or(u32::from(steered), Ordering::Relaxed);
        self.record(moment, &map);
        self.host.page().page().open(&map);
    }

    /// Compares the rate with the one that waiting threads have assumed. If the clock is faster
    /// now, their timeouts are too long.
    fn compare_rate(&mut self) {
        let rate = self.line.monotonic.rate;
        self.slowest = self.slowest.min(rate);
        self.has_sped_up |= rate.as_f64() > self.slowest.as_f64() * (1.0 + NOTICEABLE);
    }

    /// Records the map on the page, for queries about past wall instants.
    pub(super) fn record(&mut self, moment: &Moment, map: &PageMap<PageTime>) {
        let past = &self.host.page().page().past;
        past.record(moment.wall, map.map.out0, self.shown_per_wall(moment));
        self.note_dates(moment);
    }

    /// Records the map in force, for dates of files.
    pub(super) fn note_dates(&mut self, moment: &Moment) {
        let (Some(onset), Some(map)) = (moment.onset, self.published) else {
            return;
        };
        let ahead = Duration::from_ns(map.realtime_offset_ns);
        let shown = map.at(moment.virtual_map.in0) + ahead;
        let is_open = map.ceiling == Instant::FAR_FUTURE;
        let most_ns = match is_open {
            true => i64::MAX,
            false => (map.ceiling + ahead).as_ns(),
        };
        let rate = self.shown_per_wall(moment);
        self.date_lines.push(onset, shown.as_ns(), most_ns, rate);
    }

    fn shown_per_wall(&self, moment: &Moment) -> Rate {
        let lived_per_wall = moment.virtual_per_wall.times(self.time_map.rate());
        lived_per_wall.times(self.line.monotonic.rate)
    }

    /// Returns the session time of a deadline on this host's clocks, by the clock's present rate.
    /// Returns `None` if the clock never reaches the deadline.
    pub(super) fn when(&self, deadline: HostDeadline) -> Option<Instant<Virtual>> {
        match deadline {
            HostDeadline::PageTime(deadline) => self.first_showing(deadline.at),
            HostDeadline::Realtime(deadline) => self.first_showing(deadline.at),
            HostDeadline::Tai(deadline) => self.first_showing(deadline.at),
        }
    }

    fn first_showing<B: Base>(&self, at: Instant<B>) -> Option<Instant<Virtual>> {
        let ahead = B::ahead(&self.line, self.start());
        let monotonic = ClockMap::ahead_by(-ahead).at(at);
        let lived = self.line.monotonic.first_reaching(monotonic)?;
        self.time_map.first_reaching(lived)
    }

    /// Returns the host's CLOCK_MONOTONIC at the beginning of the session.
    fn start(&self) -> Duration {
        Duration::from_ns(self.offsets.monotonic_ns)
    }

    /// Returns the next session time at which the host's clocks change by themselves; `None` if
    /// they do not.
    pub(super) fn next_wake(&mut self) -> Option<Instant<Virtual>> {
        self.time_map.first_reaching(self.model.next_wake()?)
    }

    /// Returns and resets the flag that the clock has sped up, upon which threads that wait by it
    /// must recompute their timeouts.
    pub(super) fn take_sped_up(&mut self) -> bool {
        let has_sped_up = std::mem::take(&mut self.has_sped_up);
        if has_sped_up {
            self.slowest = self.line.monotonic.rate;
        }
        has_sped_up
    }

    /// Returns `now`, or the latest instant at which the model was evaluated if that is later.
    pub(super) fn not_before_asked(&self, now: Instant<Virtual>) -> Instant<Virtual> {
        now.max(self.asked)
    }
}

impl State {
    /// Returns the state of the session's published clock when the counter shows `ticks`, for a
    /// page that changes then.
    pub(super) fn moment(&self, ticks: Instant<Counter>) -> Moment {
        let wall = self.calibration.map().at(ticks);
        Moment {
            virtual_map: ClockMap::new(ticks, self.published.at(ticks), self.published.map.rate),
            ceiling: self.published.ceiling,
            running: self.waiting(),
            wall,
            virtual_per_wall: self.map.rate,
            onset: self.onset(wall),
        }
    }

    /// Returns the onset of a date line at `wall`; `None` if dates of files are not virtual.
    pub(super) fn onset(&self, wall: Instant<Wall>) -> Option<Onset> {
        Some(self.file_dates.as_ref()?.onset(wall))
    }
}

/// Kernel ticks per second (CONFIG_HZ) assumed of the hosts' kernels. The value shows in the last
/// digits of the results of `adjtimex`.
const TICKS_PER_S: u32 = 250;

/// Maximum difference, caused by rounding, of two lines that agree.
const ROUNDING: Duration = Duration::from_ns(50);

/// Relative change of a rate that is noticeable: 100 ppm, a microsecond in a wait of 10 ms. Longer
/// waits on a steered clock are made in turns, which follow smaller changes.
const NOTICEABLE: f64 = 100e-6;
