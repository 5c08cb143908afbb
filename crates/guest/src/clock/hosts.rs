//! The clocks of the session's hosts, each with a clock page of its own.
//!
//! What guests read is not virtual time but what their host makes of it: its
//! crystal errs, its kernel's clock may be steered and set. The model of both
//! is [`HostClock`]; here its line is composed with the session's, counter →
//! virtual → the host's CLOCK_MONOTONIC, and published whenever either changes.
//!
//! On a host's page "virtual time" is CLOCK_MONOTONIC less what it showed at
//! the session's beginning: virtual time as that host counts it. Deadlines of
//! its guests are on that scale.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use timeloom_clock::host::{Crystal, HostClock, HostClockOptions, HostLine};
use timeloom_clock::kernel::{Adjusted, Errno, KernelClockOptions, Timex, status};
use timeloom_page::PageMap;
use timeloom_time::{ClockMap, Counter as CounterScale, Duration, Instant, Rate, Virtual, Wall};

use super::{Clock, Counter, Offsets, State, calibration};
use crate::memory::PageMapping;

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
    name: String,
    index: usize,
    page: PageMapping,
    counter: Counter,
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

/// What the supervisor keeps of a host.
pub(super) struct HostState {
    host: Arc<Host>,
    model: HostClock,
    line: HostLine,
    /// counter → its virtual time, and → its CLOCK_MONOTONIC_RAW, as readers
    /// have it.
    published: Option<PageMap>,
    offsets: Offsets,
    /// Steps and leap seconds that were told already.
    discontinuities: u64,
    /// The slowest that its clock went since those who wait by it were last told.
    slowest: Rate,
    /// Whether it has become noticeably faster than that.
    has_sped_up: bool,
}

/// What is put on all pages at one instant.
pub(super) struct Moment {
    /// counter → virtual, from that instant on.
    pub(super) virtual_map: ClockMap<CounterScale, Virtual>,
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
    fn new(host: Arc<Host>, options: &HostOptions, offsets: Offsets, tai_s: i32) -> Self {
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
    fn compose(&mut self, moment: &Moment) -> PageMap {
        let Moment {
            virtual_map,
            ceiling,
            running,
            ..
        } = moment;
        let (ticks, now) = (virtual_map.in0, virtual_map.out0);
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
        let rate = virtual_map.rate.times(self.line.monotonic.rate);
        // What its clocks show where virtual time stops.
        let (mut last, mut raw_last_ns) = (Instant::FAR_FUTURE, i64::MAX);
        if *ceiling != Instant::FAR_FUTURE {
            let monotonic_ns = self.line.monotonic.at(*ceiling).as_ns();
            last = Instant::from_ns(monotonic_ns - start_ns).max(shown);
            raw_last_ns = self.line.core.at(*ceiling).as_ns().max(raw0_ns);
        }
        let map = PageMap {
            map: ClockMap::new(ticks, shown, rate),
            ceiling: last,
            wall_per_virtual: running
                .times(self.line.monotonic.rate)
                .inverse()
                .unwrap_or(Rate::ONE),
            realtime_offset_ns: start_ns + self.line.realtime_offset_ns,
            monotonic_offset_ns: start_ns,
            boottime_offset_ns: self.offsets.boottime_ns,
            tai_offset_ns: start_ns + self.line.tai_offset_ns,
            raw0_ns,
            raw_rate: virtual_map.rate.times(self.line.core.rate),
            raw_ceiling_ns: raw_last_ns,
        };
        self.published = Some(map);
        map
    }

    /// Opens the page that was closed.
    pub(super) fn open(&mut self, moment: &Moment) {
        let map = self.compose(moment);
        self.compare_rate();
        let page = self.host.page.page();
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
    fn record(&self, moment: &Moment, map: &PageMap) {
        let rate = moment.virtual_per_wall.times(self.line.monotonic.rate);
        let past = &self.host.page.page().past;
        past.record(moment.wall, map.map.out0, rate);
    }

    /// When this instant of the host comes, as its clock goes now.
    fn when(&self, at: HostInstant) -> Option<Instant<Virtual>> {
        let monotonic_ns = match at.base {
            Base::Monotonic => at.ns.saturating_add(self.offsets.monotonic_ns),
            Base::Realtime => at.ns.saturating_sub(self.line.realtime_offset_ns),
            Base::Tai => at.ns.saturating_sub(self.line.tai_offset_ns),
        };
        self.line
            .monotonic
            .first_reaching(Instant::from_ns(monotonic_ns))
    }
}

impl Clock {
    /// A host more, whose guests read `page`.
    pub(crate) fn add_host(
        &self,
        name: &str,
        page: PageMapping,
        options: &HostOptions,
    ) -> Arc<Host> {
        let mut state = self.lock();
        let host = Arc::new(Host {
            name: name.to_owned(),
            index: state.hosts.len(),
            page,
            counter: self.counter,
        });
        let tai_s = ((state.offsets.tai_ns - state.offsets.realtime_ns) / 1_000_000_000) as i32;
        let mut added = HostState::new(Arc::clone(&host), options, state.offsets, tai_s);
        let ticks = Instant::from_ticks(self.counter.ticks());
        let moment = Moment {
            virtual_map: ClockMap::new(ticks, state.published.at(ticks), state.published.map.rate),
            ceiling: state.published.ceiling,
            running: state.rate,
            wall: state.calibration.map().at(ticks),
            virtual_per_wall: state.map.rate,
        };
        let first = added.compose(&moment);
        let page = host.page.page();
        page.host.store(host.index as u32, Ordering::Relaxed);
        page.initialise(self.counter.kind(), &first);
        if let Some(tsc) = &self.tsc {
            page.emulate_tsc(tsc.tsc0, tsc.per_ns);
        }
        added.record(&moment, &first);
        state.hosts.push(added);
        drop(state);
        self.hosts_changed();
        host
    }

    /// `adjtimex` on a host.
    pub(crate) fn adjust_host(
        &self,
        host: &Host,
        timex: &mut Timex,
        privileged: bool,
    ) -> Result<Adjusted, Errno> {
        let changes = timex.modes != 0;
        let result = self.change_host(host, |model, now| model.adjust(now, timex, privileged));
        if changes && result.is_ok() {
            let page = host.page.page();
            page.steered.store(1, Ordering::Relaxed);
            self.hosts_changed();
        }
        result
    }

    /// `clock_settime(CLOCK_REALTIME)` on a host.
    pub(crate) fn set_host(
        &self,
        host: &Host,
        s: i64,
        part_ns: i64,
        privileged: bool,
    ) -> Result<(), Errno> {
        let result = self.change_host(host, |model, now| model.set(now, s, part_ns, privileged));
        self.hosts_changed();
        result
    }

    fn change_host<T>(
        &self,
        host: &Host,
        change: impl FnOnce(&mut HostClock, Instant<Virtual>) -> T,
    ) -> T {
        let mut state = self.lock();
        let mut result = None;
        self.publish(&mut state, |hosts, now| {
            result = Some(change(&mut hosts[host.index].model, now));
        });
        result.expect("publishing calls it")
    }

    /// Lets what changes by itself change, and publishes it.
    pub(crate) fn advance_hosts(&self) {
        let mut state = self.lock();
        self.publish(&mut state, |_, _| ());
    }

    /// The hosts whose CLOCK_REALTIME was not continuous since the last call.
    pub(crate) fn take_stepped(&self) -> Vec<Arc<Host>> {
        let mut state = self.lock();
        let stepped = state.hosts.iter_mut().filter_map(|host| {
            let now = host.model.discontinuities();
            let before = std::mem::replace(&mut host.discontinuities, now);
            (before != now).then(|| Arc::clone(&host.host))
        });
        stepped.collect()
    }

    /// Whether a host's clock goes noticeably faster than when this was last asked,
    /// so that all who wait must compute anew for how long.
    pub(crate) fn take_sped_up(&self) -> bool {
        let mut state = self.lock();
        let mut some = false;
        for host in &mut state.hosts {
            if std::mem::take(&mut host.has_sped_up) {
                host.slowest = host.line.monotonic.rate;
                some = true;
            }
        }
        some
    }

    /// Waits until a host's clock changes by itself, at most until somebody
    /// changes one, or `give_up`. Returns whether one is to change now.
    pub(crate) fn wait_for_host(&self, give_up: impl Fn() -> bool) -> bool {
        let version = self.host_version.load(Ordering::SeqCst);
        let changed = || give_up() || self.host_version.load(Ordering::SeqCst) != version;
        let next = {
            let state = self.lock();
            state.hosts.iter().filter_map(|h| h.model.next_wake()).min()
        };
        match next {
            Some(next) => self.wait_until_in_the_background(next, changed),
            None => {
                let mut state = self.lock();
                while !changed() {
                    state = self.woken.wait(state).unwrap_or_else(|e| e.into_inner());
                }
                false
            }
        }
    }

    /// The first of these to come, as the clocks go now; none may ever come.
    pub(crate) fn first_of(
        &self,
        instants: impl IntoIterator<Item = HostInstant>,
    ) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let when = |at: HostInstant| state.hosts.get(at.host)?.when(at);
        instants.into_iter().filter_map(when).min()
    }

    /// What the clock of each host shows against true time, and what its kernel
    /// believes of it; with the instant that this is true of.
    pub fn host_readings(&self) -> (Instant<Virtual>, Vec<HostReading>) {
        let mut state = self.lock();
        // Not before what the models were asked for already.
        let lines = state.hosts.iter().map(|host| host.line.core.in0);
        let now = lines.fold(self.now(), Instant::max);
        let truth = Instant::from_ns(now.as_ns() + state.offsets.realtime_ns);
        let read = |host: &mut HostState| {
            let line = host.model.line(now);
            let belief = host.model.state(now);
            let synchronised = belief.status & status::UNSYNC == 0;
            HostReading {
                host: Arc::clone(&host.host),
                error: line.realtime(now) - truth,
                frequency_error: line.monotonic.rate.as_f64() - 1.0,
                believed: synchronised.then(|| Belief {
                    estimated_error: Duration::from_us(belief.esterror),
                    maximum_error: Duration::from_us(belief.maxerror),
                }),
            }
        };
        let readings = state.hosts.iter_mut().map(read).collect();
        (now, readings)
    }

    /// Makes `page`, a zeroed one, what programs of `host` get that are let go now.
    pub(crate) fn release(&self, host: &Host, page: &PageMapping) {
        let state = self.lock();
        let calibration = state.calibration.map();
        let (ticks, now_ns) = (self.counter.ticks(), host.now_ns(Base::Monotonic));
        let machine_ns = calibration::clock_ns;
        let offset_ns = machine_ns(libc::CLOCK_MONOTONIC) - now_ns;
        let wall_per_tick = calibration.rate;
        let ahead_ns = |clock| machine_ns(clock) - machine_ns(libc::CLOCK_MONOTONIC) + offset_ns;
        let first = PageMap {
            map: ClockMap::new(
                Instant::from_ticks(ticks),
                Instant::from_ns(now_ns),
                wall_per_tick,
            ),
            ceiling: Instant::FAR_FUTURE,
            wall_per_virtual: Rate::ONE,
            realtime_offset_ns: ahead_ns(libc::CLOCK_REALTIME),
            monotonic_offset_ns: offset_ns,
            boottime_offset_ns: ahead_ns(libc::CLOCK_BOOTTIME),
            tai_offset_ns: ahead_ns(libc::CLOCK_TAI),
            raw0_ns: machine_ns(libc::CLOCK_MONOTONIC_RAW),
            raw_rate: wall_per_tick,
            raw_ceiling_ns: i64::MAX,
        };
        let former = host.page.page();
        page.page()
            .release(former, self.counter.kind(), &first, offset_ns);
    }

    fn hosts_changed(&self) {
        self.host_version.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Publishes the session's clock as it is, and the hosts' as `change` makes
    /// them, at one instant.
    fn publish(&self, state: &mut State, change: impl FnOnce(&mut [HostState], Instant<Virtual>)) {
        let calibration = state.calibration.map();
        self.publish_all(state, |state, ticks| {
            let floor = state.published.at(Instant::from_ticks(ticks));
            let map = super::compose(&calibration, state, ticks, floor);
            change(&mut state.hosts, map.map.out0);
            map
        });
    }
}

/// CONFIG_HZ of the kernels that hosts are taken to run; it shows in the last
/// digits of what `adjtimex` does.
const TICKS_PER_S: u32 = 250;

/// Two lines that agree may round this differently.
const ROUNDING: Duration = Duration::from_ns(50);

/// A hundred ppm: a microsecond in a wait of 10 ms. Longer waits on a steered clock
/// are made in turns, which follow smaller changes.
const NOTICEABLE: f64 = 100e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockOptions;

    #[test]
    fn who_waits_is_told_when_the_clock_is_made_faster_and_only_then() {
        let page = || PageMapping::new(c"test-of-rates").expect("a page");
        let clock = Clock::new(Arc::new(page()), &ClockOptions::default()).expect("a clock");
        let host = clock.add_host("steered", page(), &HostOptions::default());
        assert!(!clock.take_sped_up());
        let tick = |tick: i64| {
            let mut timex = Timex {
                modes: ADJ_TICK,
                tick,
                ..Timex::default()
            };
            clock
                .adjust_host(&host, &mut timex, true)
                .expect("a possible tick");
            clock.take_sped_up()
        };
        assert!(tick(11_000), "10 % faster");
        assert!(!tick(11_000), "as before");
        assert!(
            !tick(9_000),
            "slower: a wait that is over too early goes on"
        );
        assert!(tick(10_000), "faster than they knew");
        let mut timex = Timex {
            modes: ADJ_FREQUENCY,
            freq: 50 << 16, // ppm
            ..Timex::default()
        };
        clock.adjust_host(&host, &mut timex, true).expect("50 ppm");
        assert!(!clock.take_sped_up(), "too little to matter");
        timex.freq = 150 << 16;
        clock.adjust_host(&host, &mut timex, true).expect("150 ppm");
        assert!(clock.take_sped_up());
    }

    const ADJ_FREQUENCY: u32 = 2;
    const ADJ_TICK: u32 = 0x4000;
}
