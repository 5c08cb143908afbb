//! Clocks of the session's hosts. Each host has its own clock page.
//!
//! Guests do not read the session's virtual time but the clock of their host. The host's oscillator
//! has an error, and its kernel's clock may be steered and set. [`HostClock`] models both. Its map
//! is composed with the session's (counter → virtual → lived → the host's CLOCK_MONOTONIC) and
//! published whenever one of the maps changes. The third of these scales, "lived", is the host's
//! own time: it may be held or dilated while the session continues ([`super::host_control`]).
//!
//! The page of a host shows CLOCK_MONOTONIC minus its value at the beginning of the session
//! ([`PageTime`]). Deadlines of its guests are on that scale.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use timeloom_abi::{PageMap, PageTime};
use timeloom_clock::HostTime;
use timeloom_clock::counter::Frequency;
use timeloom_clock::host::HostClock;
use timeloom_clock::kernel::{Adjustment, Errno, Timex, status};
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual};

use super::host::{ErrorEstimate, Host, HostOptions, HostReading};
use super::host_instant::HostDeadline;
use super::host_state::HostState;
use super::{Clock, Compute, State};
use crate::linux::memory::PageMapping;

impl Clock {
    /// Adds a host. Its guests read `page`.
    pub(crate) fn add_host(
        &self,
        name: &str,
        page: PageMapping<PageTime>,
        options: &HostOptions,
    ) -> Arc<Host> {
        let mut state = self.lock();
        let host = Arc::new(Host {
            name: name.to_owned(),
            index: state.hosts.len(),
            page,
            counter: self.counter,
            congestion_requests: AtomicU64::new(0),
            keep_alive_after_s: AtomicU32::new(u32::MAX),
            card: OnceLock::new(),
        });
        let mut added = HostState::new(Arc::clone(&host), options, state.offsets);
        let ticks = Instant::from_ticks(self.counter.ticks());
        let moment = state.moment(ticks);
        let first = added.compose(&moment);
        let page = host.page.page();
        page.host.store(host.index as u32, Ordering::Relaxed);
        page.session.store(self.number, Ordering::Relaxed);
        let dates_from_ns = state.file_dates.as_ref().map_or(0, |dates| dates.from_ns);
        page.dates_from_ns.store(dates_from_ns, Ordering::Relaxed);
        page.initialise(self.counter.kind(), &first);
        if let Some(tsc) = &self.tsc {
            page.emulate_tsc(tsc.tsc0, tsc.per_ns);
        }
        if state.compute == Compute::None {
            page.show_computed(state.computed);
        }
        added.record(&moment, &first);
        state.hosts.push(added);
        drop(state);
        self.hosts_changed();
        host
    }

    /// Executes `adjtimex` on a host's clock.
    pub(crate) fn adjust_host(
        &self,
        host: &Host,
        timex: &mut Timex,
        privileged: bool,
    ) -> Result<Adjustment, Errno> {
        let changes = timex.modes != 0;
        let result = self.change_host(host, |model, now| model.adjust(now, timex, privileged));
        if changes && result.is_ok() {
            let page = host.page.page();
            page.steered.store(1, Ordering::Relaxed);
            self.hosts_changed();
        }
        result
    }

    /// Executes `clock_settime(CLOCK_REALTIME)` on a host's clock.
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

    /// Changes the frequency of the processor core whose cycles the host counts.
    pub fn change_frequency(&self, host: &Host, frequency: Frequency) {
        self.change_host(host, |model, now| model.handle_frequency(now, frequency));
        self.hosts_changed();
    }

    fn change_host<T>(
        &self,
        host: &Host,
        change: impl FnOnce(&mut HostClock, Instant<HostTime>) -> T,
    ) -> T {
        let mut state = self.lock();
        let mut result = None;
        let mut change = Some(change);
        self.publish_hosts(&mut state, &[host.index], |host, now| {
            if let Some(change) = change.take() {
                result = Some(change(&mut host.model, host.time_map.at(now)));
            }
        });
        result.expect("publishing calls it")
    }

    /// Applies changes of the hosts' clocks that are due without a request, and publishes them.
    pub(crate) fn advance_hosts(&self) {
        let mut state = self.lock();
        let all: Vec<usize> = (0..state.hosts.len()).collect();
        self.publish_hosts(&mut state, &all, |_, _| ());
    }

    /// Returns the hosts whose CLOCK_REALTIME was stepped since the last call.
    pub(crate) fn take_stepped(&self) -> Vec<Arc<Host>> {
        let mut state = self.lock();
        let stepped = state.hosts.iter_mut().filter_map(|host| {
            let now = host.model.discontinuities();
            let before = std::mem::replace(&mut host.discontinuities, now);
            (before != now).then(|| Arc::clone(&host.host))
        });
        stepped.collect()
    }

    /// Returns true if a host's clock is noticeably faster than at the last call. All waiting
    /// threads must then recompute their timeouts.
    pub(crate) fn take_sped_up(&self) -> bool {
        let mut state = self.lock();
        let mut some = false;
        for host in &mut state.hosts {
            some |= host.take_sped_up();
        }
        some
    }

    /// Waits until a host's clock is due to change by itself, a program changes a host's clock, or
    /// `give_up` returns true. Returns true in the first case.
    pub(crate) fn wait_for_host(&self, give_up: impl Fn() -> bool) -> bool {
        let version = self.host_version.load(Ordering::SeqCst);
        let changed = || give_up() || self.host_version.load(Ordering::SeqCst) != version;
        let next = {
            let mut state = self.lock();
            let hosts = state.hosts.iter_mut();
            hosts.filter_map(HostState::next_wake).min()
        };
        match next {
            Some(next) => self.wait_until_in_the_background(next, changed),
            None => {
                let mut state = self.lock();
                while !changed() {
                    self.woken.wait(&mut state);
                }
                false
            }
        }
    }

    /// Returns the first of these deadlines, by the present rates of the clocks; `None` if none of
    /// them ever comes.
    pub(crate) fn first_of<D: Into<HostDeadline>>(
        &self,
        deadlines: impl IntoIterator<Item = D>,
    ) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let when = |deadline: D| {
            let deadline = deadline.into();
            state.hosts.get(deadline.host())?.when(deadline)
        };
        deadlines.into_iter().filter_map(when).min()
    }

    /// Returns the deviation of each host's clock from true time, with the error bounds stated by
    /// its kernel, and the session time of these readings.
    pub fn host_readings(&self) -> (Instant<Virtual>, Vec<HostReading>) {
        let mut state = self.lock();
        let hosts = state.hosts.iter();
        let now = hosts.fold(self.now(), |now, host| host.not_before_asked(now));
        let truth = state.civil().at(now);
        let read = |host: &mut HostState| {
            let own = host.time_map.at(now);
            let line = host.model.line(own);
            let kernel_state = host.model.state(own);
            let rate = host.time_map.rate().times(line.monotonic.rate);
            let card = host.read_card(now, truth);
            let synchronised = kernel_state.status & status::UNSYNC == 0;
            HostReading {
                host: Arc::clone(&host.host),
                error: line.realtime(own) - truth,
                frequency_error: rate.as_f64() - 1.0,
                missing: host.model.missing(),
                card,
                stated_error: synchronised.then(|| ErrorEstimate {
                    estimated_error: Duration::from_us(kernel_state.esterror),
                    maximum_error: Duration::from_us(kernel_state.maxerror),
                }),
            }
        };
        let readings = state.hosts.iter_mut().map(read).collect();
        (now, readings)
    }

    /// Initialises `page`, which is zeroed, for programs of `host` that are released now.
    pub(crate) fn release(&self, host: &Host, page: &PageMapping<PageTime>) {
        let state = self.lock();
        let calibration = state.calibration.map();
        let (ticks, now) = (self.counter.ticks(), host.now());
        let offset_ns = read_ns(ClockId::Monotonic) - now.as_ns();
        let wall_per_tick = calibration.rate;
        let ahead_ns = |clock| read_ns(clock) - read_ns(ClockId::Monotonic) + offset_ns;
        let first = PageMap {
            map: ClockMap::new(Instant::from_ticks(ticks), now, wall_per_tick),
            ceiling: Instant::FAR_FUTURE,
            wall_per_shown: Rate::ONE,
            realtime_offset_ns: ahead_ns(ClockId::Realtime),
            monotonic_offset_ns: offset_ns,
            boottime_offset_ns: ahead_ns(ClockId::Boottime),
            tai_offset_ns: ahead_ns(ClockId::Tai),
            raw0: Instant::from_ns(read_ns(ClockId::MonotonicRaw)),
            raw_rate: wall_per_tick,
            raw_ceiling: Instant::FAR_FUTURE,
        };
        let former = host.page.page();
        page.page()
            .release(former, self.counter.kind(), &first, offset_ns);
    }

    pub(super) fn hosts_changed(&self) {
        self.host_version.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Applies `change` to these hosts and publishes their clocks, all at one instant, which is
    /// passed to `change`. No other page changes: neither the session's nor those of other
    /// hosts, whose waiting threads are not disturbed.
    pub(super) fn publish_hosts(
        &self,
        state: &mut State,
        which: &[usize],
        mut change: impl FnMut(&mut HostState, Instant<Virtual>),
    ) {
        for &index in which {
            state.hosts[index].page().page().close();
        }
        let ticks = Instant::from_ticks(self.counter.ticks());
        let moment = state.moment(ticks);
        for &index in which {
            let host = &mut state.hosts[index];
            change(host, moment.virtual_map.out0);
            host.open(&moment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockOptions;

    #[test]
    fn waiters_are_notified_only_of_a_faster_clock() {
        let name = c"test-of-rates";
        let page = Arc::new(PageMapping::new(name).expect("a page"));
        let clock = Clock::new(page, &ClockOptions::default()).expect("a clock");
        let page = PageMapping::new(name).expect("a page");
        let host = clock.add_host("steered", page, &HostOptions::default());
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
