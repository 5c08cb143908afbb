//! Changes of the clock. Each page has one writer, the supervisor.

use timeloom_time::{ClockMap, Core, Counter, Duration, Instant, Rate, Scale};

use crate::CounterKind;
use crate::layout::{ABI_VERSION, ClockPage, MAGIC, MapCopy, RELEASED};
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::fence;

/// Clock map for a page of scale `S`, as its writer states it, with the offsets of the POSIX
/// clocks.
#[derive(Debug)]
pub struct PageMap<S: Scale> {
    /// Map from the counter to the time on the page; rate 0 while paused.
    pub map: ClockMap<Counter, S>,
    /// Page time at which the clock stops for readers until the next map is published.
    /// [`Instant::FAR_FUTURE`] if there is no limit.
    pub ceiling: Instant<S>,
    /// Wall nanoseconds per nanosecond of page time while the clock runs. A pause does not change
    /// it, so that a wait that begins during the pause has an end.
    pub wall_per_shown: Rate,
    /// CLOCK_REALTIME minus the time on the page, in nanoseconds.
    pub realtime_offset_ns: i64,
    /// CLOCK_MONOTONIC minus the time on the page, in nanoseconds.
    pub monotonic_offset_ns: i64,
    /// CLOCK_BOOTTIME minus the time on the page, in nanoseconds.
    pub boottime_offset_ns: i64,
    /// CLOCK_TAI minus the time on the page, in nanoseconds.
    pub tai_offset_ns: i64,
    /// CLOCK_MONOTONIC_RAW at the start of the map.
    pub raw0: Instant<Core>,
    /// Nanoseconds of CLOCK_MONOTONIC_RAW per tick; [`Rate::STOPPED`] while paused.
    pub raw_rate: Rate,
    /// CLOCK_MONOTONIC_RAW at which that clock stops until the next map is published.
    /// [`Instant::FAR_FUTURE`] if there is no limit.
    pub raw_ceiling: Instant<Core>,
}

impl<S: Scale> PageMap<S> {
    /// Returns the time on the page that readers see at `counter`.
    pub fn at(&self, counter: Instant<Counter>) -> Instant<S> {
        self.map.at(counter).min(self.ceiling)
    }

    /// Returns the CLOCK_MONOTONIC_RAW that readers see at `counter`.
    pub fn raw_at(&self, counter: Instant<Counter>) -> Instant<Core> {
        let raw = ClockMap::new(self.map.in0, self.raw0, self.raw_rate);
        raw.at(counter).min(self.raw_ceiling)
    }
}

// Derived implementations would require the same traits of the marker type `S`, which has no
// values.
impl<S: Scale> Clone for PageMap<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: Scale> Copy for PageMap<S> {}

impl<S: Scale> ClockPage<S> {
    /// Turns a zeroed page into a clock page with the map `first`.
    pub fn initialise(&self, kind: CounterKind, first: &PageMap<S>) {
        self.store(0, first);
        self.set_next_signal(Instant::FAR_FUTURE);
        self.active.store(0, Relaxed);
        self.counter.store(kind as u32, Relaxed);
        self.version.store(ABI_VERSION, Relaxed);
        self.magic.store(MAGIC, Release);
    }

    /// Gives the readers of this page an emulated time-stamp counter. Its value is `tsc0` at the
    /// zero of CLOCK_MONOTONIC_RAW, and it counts `per_ns` ticks per nanosecond of that clock. Must
    /// be called once, before there are readers.
    pub fn emulate_tsc(&self, tsc0: u64, per_ns: Rate) {
        self.tsc0.store(tsc0, Relaxed);
        self.tsc_per_ns_8_56.store(to_8_56(per_ns), Relaxed);
    }

    /// Sets the processor time that programs see in sessions in which computing takes no virtual
    /// time: `steps` is the total by which the clock advanced for computing programs since the
    /// session began.
    pub fn show_computed(&self, steps: Duration) {
        let ns = u64::try_from(steps.as_ns()).unwrap_or(0);
        self.computed.store(ns + 1, Relaxed);
    }

    /// Sets the page time at which the next timer signal is due; [`Instant::FAR_FUTURE`] if there
    /// is none. All signals due before `at` must have been sent.
    pub fn set_next_signal(&self, at: Instant<S>) {
        self.next_signal_ns.store(at.as_ns(), Release);
    }

    /// Turns a zeroed page into the replacement of `former` for a program that is released. The map
    /// `first` continues the map of `former` at the machine's rate. `offset_ns` becomes
    /// [`Self::released_offset_ns`](ClockPage::released_offset_ns).
    ///
    /// Threads may be stopped at any point of a read of `former`. Values that they have read from
    /// it must not appear valid on this page, so its sequence number is one that `former` never
    /// had. A thread that has already selected a counter finds a map for that counter.
    pub fn release(&self, former: &Self, kind: CounterKind, first: &PageMap<S>, offset_ns: i64) {
        self.initialise(kind, first);
        let far = 1 << 30;
        let sequence = former.sequence.load(Relaxed) & !1;
        self.sequence.store(sequence.wrapping_add(far), Relaxed);
        let epoch = former.epoch.load(Relaxed);
        self.epoch.store(epoch.wrapping_add(far), Relaxed);
        self.host.store(former.host.load(Relaxed), Relaxed);
        // The value is odd, and one that `former` never had. So a timeline that was opened in the
        // session learns that it has no counter any more.
        let disruptions = former.disruptions().load(Relaxed) | 1;
        self.disruptions()
            .store(disruptions.wrapping_add(far.into()), Relaxed);
        // A dilation of 1 shows processor time unchanged.
        self.past.set_dilation(1.0);
        self.released_offset_ns.store(offset_ns, Relaxed);
        self.counter.store(RELEASED, Release);
    }

    /// Returns true if the program that reads this page was released from its session.
    #[inline(always)]
    pub fn is_released(&self) -> bool {
        self.counter.load(Relaxed) == RELEASED
    }

    /// Returns true if the host has a network card of the model.
    #[inline(always)]
    pub fn has_card(&self) -> bool {
        self.card.load(Relaxed) != 0
    }

    /// Closes the window, computes the new map by `next` from the map in force and the present
    /// counter, publishes the new map and opens the window.
    ///
    /// The map that `next` returns must agree with the old one at the given counter, or be later;
    /// otherwise readers would see a backward step. Readers wait while `next` runs, so it must make
    /// no system calls and allocate nothing.
    pub fn publish(
        &self,
        counter: impl Fn() -> u64,
        next: impl FnOnce(u64) -> PageMap<S>,
    ) -> PageMap<S> {
        self.close();
        let map = next(counter());
        self.open(&map);
        map
    }

    /// Closes the window: readers wait from now on. The caller must soon call [`Self::open`]. A
    /// counter value read after this call is later than any that a reader has applied to the map in
    /// force.
    pub fn close(&self) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence | 1, SeqCst);
        // The caller's read of the counter must not happen before the closed window is visible: a
        // reader that still finds the window open has then read the counter before the caller does.
        fence(SeqCst);
    }

    /// Puts `map` in force and opens the window that [`Self::close`] has closed.
    pub fn open(&self, map: &PageMap<S>) {
        let sequence = self.sequence.load(Relaxed);
        let target = (self.active.load(Relaxed) & 1) ^ 1;
        self.store(target as usize, map);
        self.active.store(target, Release);
        self.epoch.fetch_add(1, Release);
        self.sequence.store((sequence | 1).wrapping_add(1), Release);
    }

    /// Returns true if the page has [`MAGIC`] and the layout of this version.
    pub fn is_valid(&self) -> bool {
        self.magic.load(Acquire) == MAGIC && self.version.load(Relaxed) == ABI_VERSION
    }

    fn store(&self, index: usize, page_map: &PageMap<S>) {
        let copy: &MapCopy = &self.copies[index];
        copy.counter0.store(page_map.map.in0.as_ticks(), Relaxed);
        copy.shown0_ns.store(page_map.map.out0.as_ns(), Relaxed);
        copy.rate_8_56.store(to_8_56(page_map.map.rate), Relaxed);
        copy.wall_per_shown_32_32
            .store(to_32_32_up(page_map.wall_per_shown), Relaxed);
        copy.realtime_offset_ns
            .store(page_map.realtime_offset_ns, Relaxed);
        copy.monotonic_offset_ns
            .store(page_map.monotonic_offset_ns, Relaxed);
        copy.boottime_offset_ns
            .store(page_map.boottime_offset_ns, Relaxed);
        copy.tai_offset_ns.store(page_map.tai_offset_ns, Relaxed);
        let most_ns = most_ns(page_map.map.out0, page_map.ceiling);
        copy.most_ns.store(most_ns, Relaxed);
        copy.raw0_ns.store(page_map.raw0.as_ns(), Relaxed);
        let most_ns = self::most_ns(page_map.raw0, page_map.raw_ceiling);
        copy.raw_most_ns.store(most_ns, Relaxed);
        copy.raw_rate_8_56
            .store(to_8_56(page_map.raw_rate), Relaxed);
    }
}

/// Returns the length of a map's line in nanoseconds, from `start` to `ceiling`; `i64::MAX` if it
/// has no end.
fn most_ns<S: Scale>(start: Instant<S>, ceiling: Instant<S>) -> i64 {
    if ceiling == Instant::FAR_FUTURE {
        return i64::MAX;
    }
    (ceiling - start).as_ns().max(0)
}

/// Converts a rate to 8.56 fixed point. Rounds down; saturates at the largest rate that the page
/// can hold.
fn to_8_56(rate: Rate) -> u64 {
    u64::try_from(rate.to_bits() >> 8).unwrap_or(u64::MAX)
}

/// Converts a rate to 32.32 fixed point. Rounds up, so that a wait converted with the result is
/// never too short.
fn to_32_32_up(rate: Rate) -> u64 {
    u64::try_from(rate.to_bits().div_ceil(1 << 32)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;
    use std::sync::atomic::AtomicU64;

    use crate::PageTime;

    fn page() -> Box<ClockPage<PageTime>> {
        // SAFETY: every field is an atomic integer, for which zero is a value.
        unsafe { Box::<ClockPage<PageTime>>::new_zeroed().assume_init() }
    }

    fn running(counter0: u64, shown0_ns: i64, rate: Rate) -> PageMap<PageTime> {
        PageMap {
            map: ClockMap::new(
                Instant::from_ticks(counter0),
                Instant::from_ns(shown0_ns),
                rate,
            ),
            ceiling: Instant::FAR_FUTURE,
            wall_per_shown: Rate::ONE,
            realtime_offset_ns: 7,
            monotonic_offset_ns: 0,
            boottime_offset_ns: 0,
            tai_offset_ns: 0,
            raw0: Instant::from_ns(3),
            raw_rate: rate,
            raw_ceiling: Instant::FAR_FUTURE,
        }
    }

    #[test]
    fn a_read_follows_the_published_line() {
        let page = page();
        page.initialise(
            CounterKind::Tsc,
            &running(100, 5, Rate::from_ratio(1, 2).unwrap()),
        );
        assert!(page.is_valid());
        let (now, offset) = page.read(|| 300, |copy| copy.realtime_offset_ns.load(Relaxed));
        assert_eq!((now.as_ns(), offset), (105, 7));
        page.publish(|| 300, |ticks| running(ticks, 105, Rate::STOPPED));
        assert_eq!(page.read(|| 9_999, |_| ()).0.as_ns(), 105);
    }

    #[test]
    fn the_raw_clock_has_a_line_of_its_own() {
        let page = page();
        let first = PageMap {
            raw0: Instant::from_ns(1_000),
            raw_rate: Rate::from_ratio(1, 4).unwrap(),
            ..running(100, 5, Rate::ONE)
        };
        page.initialise(CounterKind::Tsc, &first);
        assert_eq!(page.read_raw(|| 300).as_ns(), 1_050);
        assert_eq!(page.read(|| 300, |_| ()).0.as_ns(), 205);
        assert_eq!(
            page.read_raw(|| 99).as_ns(),
            1_000,
            "a counter behind the map"
        );
    }

    /// The limit is exact to the nanosecond, for any delay of the writer's next change, and for
    /// both clocks.
    #[test]
    fn a_line_goes_no_further_than_its_ceiling() {
        let page = page();
        let first = PageMap {
            ceiling: Instant::from_ns(105),
            raw0: Instant::from_ns(1_000),
            raw_ceiling: Instant::from_ns(1_050),
            raw_rate: Rate::from_ratio(1, 2).unwrap(),
            ..running(100, 5, Rate::ONE)
        };
        page.initialise(CounterKind::Tsc, &first);
        for (counter, shown, raw) in [
            (150, 55, 1_025),
            (200, 105, 1_050),
            (201, 105, 1_050),
            (u64::MAX >> 8, 105, 1_050),
        ] {
            assert_eq!(
                page.read(|| counter, |_| ()).0.as_ns(),
                shown,
                "at {counter}"
            );
            assert_eq!(page.try_read(|| counter, |_| 7), Some(shown + 7));
            assert_eq!(page.read_raw(|| counter).as_ns(), raw, "at {counter}");
            assert_eq!(first.at(Instant::from_ticks(counter)).as_ns(), shown);
            assert_eq!(first.raw_at(Instant::from_ticks(counter)).as_ns(), raw);
        }
        // A ceiling below the line's own start must not set the clock back.
        let late = PageMap {
            ceiling: Instant::from_ns(90),
            ..running(300, 105, Rate::ONE)
        };
        page.publish(|| 300, |_| late);
        assert_eq!(page.read(|| 400, |_| ()).0.as_ns(), 105);
    }

    #[test]
    fn a_hurried_read_gives_up_rather_than_wait_or_guess() {
        let page = page();
        page.initialise(CounterKind::Tsc, &running(100, 5, Rate::ONE));
        let offset = |copy: &MapCopy| copy.realtime_offset_ns.load(Relaxed);
        assert_eq!(page.try_read(|| 300, offset), Some(212));
        assert_eq!(
            page.try_read(|| 99, offset),
            None,
            "a counter behind the map"
        );
        page.sequence.store(1, SeqCst);
        assert_eq!(
            page.try_read(|| 300, offset),
            None,
            "a writer in its window"
        );
    }

    /// Tests a thread that is in a read when the page is replaced.
    #[test]
    fn a_read_across_a_release_is_made_anew() {
        let (former, page) = (self::page(), self::page());
        former.initialise(CounterKind::Tsc, &running(0, 0, Rate::ONE));
        former.publish(|| 9, |ticks| running(ticks, 9, Rate::ONE));
        page.release(&former, CounterKind::Tsc, &running(500, 70, Rate::ONE), -3);
        assert!(page.is_released() && !former.is_released());
        let seen = former.sequence.load(Relaxed);
        assert_ne!(page.sequence.load(Relaxed), seen);
        assert_eq!(
            page.sequence.load(Relaxed) & 1,
            0,
            "a reader does not wait for a writer"
        );
        assert_ne!(page.epoch.load(Relaxed), former.epoch.load(Relaxed));
        assert_eq!(page.read(|| 510, |_| ()).0.as_ns(), 80);
        assert_eq!(page.past.dilation(), (1.0, false));
    }

    #[test]
    fn a_writer_killed_in_its_window_does_not_hang_readers() {
        let page = page();
        page.initialise(CounterKind::Tsc, &running(0, 0, Rate::ONE));
        page.sequence.store(1, SeqCst);
        assert_eq!(page.read(|| 42, |_| ()).0.as_ns(), 42);
    }

    #[test]
    fn no_reader_sees_time_go_back_while_the_rate_changes() {
        let page = page();
        page.initialise(CounterKind::Tsc, &running(0, 0, Rate::ONE));
        let ticks = AtomicU64::new(0);
        let done = AtomicBool::new(false);
        let counter = || ticks.fetch_add(1, SeqCst);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !done.load(Relaxed) {
                        // The image reads in the same way: first the fast path, then the path that
                        // waits.
                        let at_once = page.try_read(counter, |_| 0);
                        let now = at_once.unwrap_or_else(|| page.read(counter, |_| ()).0.as_ns());
                        assert!(now >= last, "{now} after {last}");
                        last = now;
                    }
                });
            }
            let mut map = running(0, 0, Rate::ONE);
            // Each seed of Miri gives another interleaving, so few iterations suffice.
            let turns = if cfg!(miri) { 60 } else { 20_000 };
            for turn in 0..turns {
                let rate = Rate::from_ratio(turn % 5u64, 3).unwrap();
                map = page.publish(counter, |now| PageMap {
                    map: map.map.continued(Instant::from_ticks(now), rate),
                    ..map
                });
            }
            done.store(true, Relaxed);
        });
    }

    #[test]
    fn an_emulated_counter_counts_the_raw_clock() {
        let page = page();
        page.initialise(CounterKind::Monotonic, &running(0, 0, Rate::ONE));
        assert!(!page.emulates_tsc());
        // A counter of 2.5 GHz that was started 1,000 ticks before the clock's zero.
        page.emulate_tsc(1_000u64.wrapping_neg(), Rate::from_ratio(5, 2).unwrap());
        assert!(page.emulates_tsc());
        let raw = Instant::from_ns;
        assert_eq!(page.tsc_at(raw(400)), 0);
        assert_eq!(page.tsc_at(raw(1_000_000_400)), 2_500_000_000);
        // After a month the error is below one tick.
        assert_eq!(
            page.tsc_at(raw(2_592_000_000_000_000)),
            6_479_999_999_999_000
        );
    }
}
