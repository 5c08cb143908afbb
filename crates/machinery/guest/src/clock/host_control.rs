//! Holding, dilating and releasing single hosts while the session continues.
//!
//! The state changed here is a host's [`HostTimeMap`]: the map from the session's virtual time to
//! the host's own time. Only the pages of the hosts concerned are published anew, all at one
//! instant.

use parking_lot::MutexGuard;
use std::sync::Arc;

use timeloom_clock::HostTime;
use timeloom_clock::host_time_map::HostTimeMap;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual, Wall};

use super::waiting::Awaited;
use super::{ChangeKind, Clock, Host, State};
use crate::error::GuestError;

/// State of a host's own time, compared with the session's.
#[derive(Clone, Debug)]
pub struct HostTimeState {
    /// Host of the state.
    pub host: Arc<Host>,
    /// The host's own time: the virtual time that has passed for it since the session began.
    pub lived: Instant<HostTime>,
    /// Session time minus the host's own time; negative if the host is ahead.
    pub behind: Duration,
    /// True if the host's time is stopped while the session's may run.
    pub held: bool,
    /// Session seconds per second of the host, while the host is not held.
    pub dilation: f64,
}

impl HostTimeState {
    /// Returns true if the host's own time differs from the session's.
    pub(crate) fn is_off(&self) -> bool {
        self.held || self.behind != Duration::ZERO || self.dilation != 1.0
    }
}

/// Change of the rate of a host's own time, for the run's record.
#[derive(Clone, Debug)]
pub struct HostChange {
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Session time of the change.
    pub at: Instant<Virtual>,
    /// Wall time of the change.
    pub wall: Instant<Wall>,
    /// State of the host after the change.
    pub host: HostTimeState,
}

/// Instant of its own time at which a host is to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostEnd {
    pub(crate) host: usize,
    at: Instant<HostTime>,
    number: u64,
}

/// Callback that is run after every change of the rate of a host's own time.
pub(super) type HostListener = Box<dyn Fn(&HostChange) + Send + Sync>;

impl Clock {
    /// Stops the time of these hosts, given by number. Has no effect on hosts that are held
    /// already.
    pub(crate) fn hold_hosts(&self, which: &[usize]) {
        self.change_time_maps(ChangeKind::Pause, which, |time_map, now| {
            let changes = !time_map.is_held();
            time_map.hold(now);
            changes
        });
    }

    /// Resumes the time of these hosts, given by number, from where it was stopped.
    pub(crate) fn release_hosts(&self, which: &[usize]) {
        self.change_time_maps(ChangeKind::Resume, which, |time_map, now| {
            let changes = time_map.is_held();
            time_map.release(now);
            changes
        });
    }

    /// Sets the dilation of these hosts, given by number: session seconds per second of the host.
    ///
    /// # Errors
    /// Fails if `factor` is not within 0.001 … 1000.
    pub(crate) fn dilate_hosts(&self, which: &[usize], factor: f64) -> Result<(), GuestError> {
        if !HostTimeMap::default().dilate(Instant::ZERO, factor) {
            return Err(GuestError::Usage(format!(
                "a host's dilation of {factor} is not possible; give the session's seconds per second of the host, from 0.001 to 1000"
            )));
        }
        self.change_time_maps(ChangeKind::Dilate, which, |time_map, now| {
            time_map.dilate(now, factor)
        });
        Ok(())
    }

    /// Sets an end for each of these hosts: an instant of the host's own time at which its time
    /// stops, until [`Self::forget_host_end`]. A held host is not resumed.
    ///
    /// # Errors
    /// Fails, without setting any end, if a host has reached its instant already or has another
    /// end.
    pub(crate) fn end_hosts_at(
        &self,
        targets: &[(usize, Instant<HostTime>)],
    ) -> Result<Vec<HostEnd>, GuestError> {
        let mut state = self.lock();
        for &(index, _) in targets {
            let host = &state.hosts[index];
            if host.time_map.end() != Instant::FAR_FUTURE {
                return Err(GuestError::Usage(format!(
                    "host {} runs until {} of its own time already (`timeloom pause --host` ends that)",
                    host.host.name(),
                    shown(host.time_map.end())
                )));
            }
        }
        let which: Vec<usize> = targets.iter().map(|(index, _)| *index).collect();
        let (mut ends, mut past) = (Vec::new(), None);
        let mut rest = targets.iter();
        self.publish_hosts(&mut state, &which, |host, now| {
            let Some(&(index, at)) = rest.next() else {
                return;
            };
            if host.time_map.end_at(now, at) {
                let number = host.end;
                ends.push(HostEnd {
                    host: index,
                    at,
                    number,
                });
            } else {
                past.get_or_insert((index, at, host.time_map.at(now)));
            }
        });
        if let Some((index, at, lived)) = past {
            let made: Vec<usize> = ends.iter().map(|end| end.host).collect();
            self.publish_hosts(&mut state, &made, |host, now| host.time_map.forget_end(now));
            return Err(GuestError::Usage(format!(
                "{} is in the past: the own time of host {} is {}",
                shown(at),
                state.hosts[index].host.name(),
                shown(lived)
            )));
        }
        drop(state);
        self.hosts_changed();
        Ok(ends)
    }

    /// Removes the end of the host with this number, so that its time does not stop by itself.
    pub(crate) fn forget_host_end(&self, index: usize) {
        let mut state = self.lock();
        if state.hosts[index].time_map.end() == Instant::FAR_FUTURE {
            return;
        }
        self.publish_hosts(&mut state, &[index], |host, now| {
            host.time_map.forget_end(now);
            host.end += 1;
        });
        drop(state);
        self.hosts_changed();
    }

    /// Waits until one of these ends is reached or removed, or `give_up` returns true. Returns the
    /// ends that were reached or removed, with the wall instant at which they were reached; `None`
    /// for removed ones.
    pub(crate) fn wait_for_host_ends(
        &self,
        ends: &[HostEnd],
        give_up: impl Fn() -> bool,
    ) -> Vec<(HostEnd, Option<Instant<Wall>>)> {
        let awaited: Vec<_> = ends
            .iter()
            .map(|end| Awaited::Host(end.host, end.at))
            .collect();
        let is_over = |state: &State, end: &HostEnd| {
            let host = &state.hosts[end.host];
            host.end != end.number || host.time_map.at(self.now()) >= end.at
        };
        self.wait_for(&awaited, |state| {
            give_up() || ends.iter().any(|end| is_over(state, end))
        });
        let state = self.lock();
        let over = ends.iter().filter(|end| is_over(&state, end));
        over.map(|end| {
            let host = &state.hosts[end.host];
            let reached = (host.end == end.number)
                .then(|| host.time_map.first_reaching(end.at))
                .flatten()
                .and_then(|at| state.map.first_reaching(at));
            (*end, reached)
        })
        .collect()
    }

    /// Returns the state of each host's own time, and the session time at which all these states
    /// were taken.
    pub fn host_times(&self) -> (Instant<Virtual>, Vec<HostTimeState>) {
        let state = self.lock();
        let now = self.now();
        let all = 0..state.hosts.len();
        (now, all.map(|index| state.host_time(index, now)).collect())
    }

    /// Returns true if the host with this number is held.
    pub(crate) fn is_held(&self, index: usize) -> bool {
        self.lock().hosts[index].time_map.is_held()
    }

    /// Returns the wall seconds per second of the host with this number, while neither host nor
    /// session is held.
    pub(crate) fn dilation_on(&self, index: usize) -> f64 {
        let state = self.lock();
        state.dilation * state.hosts[index].time_map.factor()
    }

    /// Registers `listener`, which is called after every change of the rate of a host's own time.
    pub fn on_host_change(&self, listener: impl Fn(&HostChange) + Send + Sync + 'static) {
        let mut listeners = self.host_listeners();
        listeners.push(Box::new(listener));
    }

    /// Applies `change` to the time maps of these hosts, all at one instant, and publishes their
    /// pages. Calls the listeners for those hosts for which `change` returns true: it has changed
    /// the map.
    fn change_time_maps(
        &self,
        kind: ChangeKind,
        which: &[usize],
        change: impl Fn(&mut HostTimeMap, Instant<Virtual>) -> bool,
    ) {
        let mut state = self.lock();
        let mut changed = Vec::new();
        self.publish_hosts(&mut state, which, |host, now| {
            if change(&mut host.time_map, now) {
                changed.push((host.host.index(), now));
            }
        });
        let changes: Vec<HostChange> = changed
            .into_iter()
            .map(|(index, at)| HostChange {
                kind,
                at,
                wall: wall_now(),
                host: state.host_time(index, at),
            })
            .collect();
        drop(state);
        self.hosts_changed();
        let listeners = self.host_listeners();
        for change in &changes {
            listeners.iter().for_each(|listener| listener(change));
        }
    }

    fn host_listeners(&self) -> MutexGuard<'_, Vec<HostListener>> {
        self.host_listeners.lock()
    }
}

impl State {
    fn host_time(&self, index: usize, now: Instant<Virtual>) -> HostTimeState {
        let host = &self.hosts[index];
        HostTimeState {
            host: Arc::clone(&host.host),
            lived: host.time_map.at(now),
            behind: host.time_map.behind(now),
            held: host.time_map.is_held(),
            dilation: host.time_map.factor(),
        }
    }
}

fn shown(at: Instant<HostTime>) -> String {
    (at - Instant::ZERO).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use timeloom_clock::RateError;
    use timeloom_clock::host::HostOscillator;

    use super::*;
    use crate::clock::{ClockOptions, HostOptions};
    use crate::linux::memory::PageMapping;
    use timeloom_random::Random;

    fn clock_with_hosts(oscillators: &[HostOscillator]) -> (Clock, Vec<Arc<Host>>) {
        let name = c"test-of-courses";
        let page = Arc::new(PageMapping::new(name).expect("a page"));
        let clock = Clock::new(page, &ClockOptions::default()).expect("a clock");
        let add = |oscillator: &HostOscillator| {
            let options = HostOptions {
                oscillator: *oscillator,
                ..HostOptions::default()
            };
            let page = PageMapping::new(name).expect("a page");
            clock.add_host("one", page, &options)
        };
        let hosts = oscillators.iter().map(add).collect();
        (clock, hosts)
    }

    fn host_time(clock: &Clock, index: usize) -> Instant<HostTime> {
        clock.host_times().1[index].lived
    }

    /// Performs random operations on the session and a host, as fast as possible. Checks the host's
    /// page, and that of a host that is not changed.
    #[test]
    fn no_reader_sees_a_host_go_back_or_another_one_change() {
        let seed = 20_260_807;
        let wandering = HostOscillator {
            frequency: RateError::from_ppb(-40_000_000),
            ..HostOscillator::default()
        };
        let (clock, hosts) = clock_with_hosts(&[
            HostOscillator::default(),
            wandering,
            HostOscillator::default(),
        ]);
        let raw = |index: usize| {
            let page = hosts[index].page().page();
            page.read_raw(|| clock.counter.ticks())
        };
        clock.hold_hosts(&[0]);
        // Both clocks of an ideal host run at the same rate.
        let raw_ahead = raw(0).as_ns() - hosts[0].now().as_ns();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for host in &hosts {
                let (clock, done) = (&clock, &done);
                scope.spawn(move || {
                    let (mut last, mut raw) = (Instant::ZERO, Instant::ZERO);
                    while !done.load(Ordering::Relaxed) {
                        let now = host.now();
                        assert!(now >= last, "seed {seed}: {now:?} after {last:?}");
                        last = now;
                        let page = host.page().page();
                        let now = page.read_raw(|| clock.counter.ticks());
                        assert!(now >= raw, "seed {seed}: raw {now:?} after {raw:?}");
                        raw = now;
                    }
                });
            }
            let mut random = Random::new(seed, 0);
            let mut ended = [false; 2];
            for _ in 0..20_000 {
                let index = random.below(2) as usize;
                match random.below(9) {
                    0 => clock.hold_hosts(&[index]),
                    1 => clock.release_hosts(&[0, 1]),
                    2 => clock
                        .dilate_hosts(&[index], 0.1 * (1 + random.below(50)) as f64)
                        .expect("a possible factor"),
                    3 if !ended[index] => {
                        let soon = Duration::from_ns(1 + random.below(100_000) as i64);
                        let end = host_time(&clock, index) + soon;
                        // The host may have reached the end already.
                        ended[index] = clock.end_hosts_at(&[(index, end)]).is_ok();
                    }
                    4 => {
                        clock.forget_host_end(index);
                        ended[index] = false;
                    }
                    5 => drop(clock.pause()),
                    6 => clock.resume(),
                    7 => clock
                        .dilate(0.1 * (1 + random.below(50)) as f64)
                        .expect("a possible factor"),
                    _ => {
                        let skip = Duration::from_ns(random.below(100_000) as i64);
                        clock.skip_to(clock.now() + skip, || {});
                    }
                }
            }
            clock.pause();
            done.store(true, Ordering::Relaxed);
        });
        let shown = |index: usize| hosts[index].now().as_ns();
        let off = shown(0) - host_time(&clock, 0).as_ns();
        assert!(off.abs() <= 60, "seed {seed}: {off} ns");
        let off = raw(0).as_ns() - shown(0) - raw_ahead;
        assert!(off.abs() <= 60, "seed {seed}: raw {off} ns");
        let off = shown(2) - clock.now().as_ns();
        assert!(off.abs() <= 60, "seed {seed}: {off} ns");
    }

    /// Checks all clocks of the host while other hosts continue. The stop can come long after all
    /// readers have seen that the host's clock stands.
    #[test]
    fn a_hosts_clock_ends_at_its_instant_before_the_stop() {
        let (clock, hosts) =
            clock_with_hosts(&[HostOscillator::default(), HostOscillator::default()]);
        clock.hold_hosts(&[0]);
        let target = host_time(&clock, 0) + Duration::from_ns(3_000_001);
        let ends = clock.end_hosts_at(&[(0, target)]).expect("it is ahead");
        assert!(clock.end_hosts_at(&[(0, target)]).is_err(), "one at a time");
        clock.release_hosts(&[0]);
        let over = clock.wait_for_host_ends(&ends, || false);
        assert_eq!(over.len(), 1);
        assert!(over[0].1.is_some_and(|reached| reached <= wall_now()));
        let other = hosts[1].now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(hosts[0].now().as_ns(), target.as_ns());
        assert!(hosts[1].now() >= other + Duration::from_ms(5));
        clock.hold_hosts(&[0]);
        clock.forget_host_end(0);
        assert_eq!(host_time(&clock, 0), target);
        clock.release_hosts(&[0]);
        let at = HostEnd {
            host: 0,
            at: target + Duration::from_us(50),
            number: 1,
        };
        let over = clock.wait_for_host_ends(&[at], || false);
        assert_eq!(over.len(), 1, "it goes on");
        let past = clock.end_hosts_at(&[(1, Instant::ZERO + Duration::from_s(99)), (0, target)]);
        assert!(past.is_err(), "one of them is past");
        let far = Instant::ZERO + Duration::from_s(98);
        clock.end_hosts_at(&[(1, far)]).expect("so none has an end");
    }
}
