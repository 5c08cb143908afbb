//! Waits of threads of this process for an instant of the session, or of a host.

use std::cell::Cell;
use std::sync::Arc;

use timeloom_clock::HostTime;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual};

use super::{Clock, State};

/// Guard with an instant over which the clock does not skip while the guard exists: a component of
/// this process acts at that instant, and polls the clock for it.
pub struct Mark {
    clock: Arc<Clock>,
    wait: u64,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.clock.lock().forget(self.wait);
    }
}

/// Instant that a thread waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// Virtual time of the session.
    Session(Instant<Virtual>),
    /// Virtual time of the session at which nothing happens to programs.
    Background(Instant<Virtual>),
    /// Instant of the own time of the host with this number.
    Host(usize, Instant<HostTime>),
}

impl State {
    /// Returns the virtual time of an awaited instant, by the present rates of the clocks; `None`
    /// if the instant does not come.
    fn when(&self, awaited: Awaited) -> Option<Instant<Virtual>> {
        match awaited {
            Awaited::Session(at) | Awaited::Background(at) => Some(at),
            Awaited::Host(host, at) => self.hosts.get(host)?.time_map.first_reaching(at),
        }
    }

    /// Returns true if a thread of this process waits for an instant that comes by `until`.
    pub(super) fn is_awaited_by(&self, until: Instant<Virtual>) -> bool {
        let mut awaited = self.awaited.iter();
        awaited.any(|(_, one)| self.when(*one).is_some_and(|at| at <= until))
    }

    /// Registers a new wait for these instants, and returns its number.
    fn await_all(&mut self, awaited: &[Awaited]) -> u64 {
        self.waits += 1;
        let wait = self.waits;
        self.awaited.extend(awaited.iter().map(|one| (wait, *one)));
        wait
    }

    fn forget(&mut self, wait: u64) {
        self.awaited.retain(|(other, _)| *other != wait);
    }
}

impl Clock {
    /// Waits until the clock shows `target`, through pauses and changes of rate, or until `give_up`
    /// returns true. `give_up` is called after every [`Self::wake`]. Returns true if `target` was
    /// reached.
    pub fn wait_until(&self, target: Instant<Virtual>, give_up: impl Fn() -> bool) -> bool {
        self.wait_until_or(Awaited::Session(target), target, give_up)
    }

    /// Waits like [`Self::wait_until`], for an action that has no effect on programs (a record, the
    /// end): the granter of the session's time need not know `target` as a deadline.
    pub fn wait_until_in_the_background(
        &self,
        target: Instant<Virtual>,
        give_up: impl Fn() -> bool,
    ) -> bool {
        self.wait_until_or(Awaited::Background(target), target, give_up)
    }

    fn wait_until_or(
        &self,
        awaited: Awaited,
        target: Instant<Virtual>,
        give_up: impl Fn() -> bool,
    ) -> bool {
        let gave_up = Cell::new(false);
        self.wait_for(&[awaited], |_| {
            gave_up.set(give_up());
            gave_up.get() || self.now() >= target
        });
        !gave_up.get()
    }

    /// Waits until `over` returns true. `over` is called at the first of the instants `awaited`,
    /// after every change of the clock, and after every [`Self::wake`].
    pub(super) fn wait_for(&self, awaited: &[Awaited], over: impl Fn(&State) -> bool) {
        let mut state = self.lock();
        let wait = state.await_all(awaited);
        while !over(&state) {
            let next = awaited.iter().filter_map(|one| state.when(*one)).min();
            // An instant after the one at which the clock stops cannot be reached: only a change
            // ends the wait.
            let next = next.filter(|next| *next <= state.ceiling);
            match next.and_then(|next| state.map.first_reaching(next)) {
                // The wait is half a microsecond longer, since the page may lag the exact map by
                // its rounding.
                Some(due) => {
                    let left = due - wall_now() + Duration::from_ns(500);
                    let left = std::time::Duration::from_nanos(left.as_ns().max(1) as u64);
                    self.changed.wait_for(&mut state, left);
                }
                None => self.changed.wait(&mut state),
            }
        }
        state.forget(wait);
    }

    /// Marks an instant over which the clock must not skip, although nothing happens to programs
    /// then (a limit of the run).
    pub fn mark(self: &Arc<Self>, at: Instant<Virtual>) -> Mark {
        let wait = self.lock().await_all(&[Awaited::Background(at)]);
        Mark {
            clock: Arc::clone(self),
            wait,
        }
    }

    /// Returns the earliest virtual time that a thread of this process waits for, or that was
    /// announced.
    pub(crate) fn next_awaited(&self) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let awaited = state.awaited.iter().filter_map(|(_, one)| state.when(*one));
        awaited.chain(state.announced).min()
    }

    /// Returns the earliest virtual time that a thread of this process waits for, and the announced
    /// one.
    pub(crate) fn awaited_and_announced(&self) -> [Option<Instant<Virtual>>; 2] {
        let state = self.lock();
        let awaited = state.awaited.iter().filter_map(|(_, one)| state.when(*one));
        [awaited.min(), state.announced]
    }

    /// Returns the earliest awaited or announced virtual time at which something may happen to a
    /// program.
    pub(crate) fn next_deadline(&self) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let awaited = state.awaited.iter().map(|(_, one)| *one);
        let noticed = awaited.filter(|one| !matches!(one, Awaited::Background(_)));
        let noticed = noticed.filter_map(|one| state.when(one));
        noticed.chain(state.announced).min()
    }

    /// Announces the next event of a component that follows this clock without waiting for it here:
    /// a simulated network. A clock that skips does not skip past the event. Each announcement
    /// replaces the last.
    pub fn announce(&self, next: Option<Instant<Virtual>>) {
        self.lock().announced = next;
    }

    /// Makes every [`Self::wait_until`] in progress call its `give_up` again.
    pub fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
        self.woken.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::clock::{ClockOptions, Compute};
    use crate::linux::memory::PageMapping;

    /// The clock moves only by skips. Those that end before the awaited instant do not wake the
    /// thread, and none is lost.
    #[test]
    fn a_skipping_clock_wakes_a_thread_at_its_instant() {
        let page = PageMapping::new(c"test-of-waits").expect("a page");
        let options = ClockOptions {
            compute: Compute::None,
            ..ClockOptions::default()
        };
        let clock = Clock::new(Arc::new(page), &options).expect("a clock");
        let looks = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for instant in 1..=3 {
                let target = Instant::ZERO + Duration::from_ms(100 * instant);
                let (clock, looks) = (&clock, &looks);
                scope.spawn(move || {
                    let reached = clock.wait_until(target, || {
                        looks.fetch_add(1, Ordering::SeqCst);
                        false
                    });
                    assert!(reached && clock.now() >= target);
                });
            }
            let wait_for_threads = |count| {
                while clock.lock().awaited.len() != count {
                    std::thread::yield_now();
                }
            };
            wait_for_threads(3);
            for number in 1..=300 {
                clock.skip_to(Instant::ZERO + Duration::from_ms(number), || {});
                wait_for_threads(3 - number as usize / 100);
            }
        });
        assert!(clock.lock().awaited.is_empty());
        // At the start, and at most at each of the three instants.
        let looks = looks.load(Ordering::SeqCst);
        assert!((3..=12).contains(&looks), "{looks}");
    }
}
