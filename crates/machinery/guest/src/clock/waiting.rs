//! Waits in this process for an instant of the session, or of a host.

use std::cell::Cell;
use std::sync::Arc;

use timeloom_clock::Lived;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual};

use super::{Clock, State};

/// Instant over which a clock does not skip while this is kept: a component of this process acts at
/// that instant, and polls the clock for it.
pub struct Mark {
    clock: Arc<Clock>,
    wait: u64,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.clock.lock().forget(self.wait);
    }
}

/// Awaited instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// Instant of the session.
    Session(Instant<Virtual>),
    /// Instant of the session at which no program notices anything.
    Background(Instant<Virtual>),
    /// Instant of a host's own time.
    Host(usize, Instant<Lived>),
}

impl State {
    /// Returns the session instant, by the present rates of the clocks; `None` if it does not come.
    fn when(&self, awaited: Awaited) -> Option<Instant<Virtual>> {
        match awaited {
            Awaited::Session(at) | Awaited::Background(at) => Some(at),
            Awaited::Host(host, at) => self.hosts.get(host)?.course.first_reaching(at),
        }
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
    /// (called after every [`Self::wake`]) returns true. Returns true if the instant was reached.
    pub fn wait_until(&self, target: Instant<Virtual>, give_up: impl Fn() -> bool) -> bool {
        self.wait_until_or(Awaited::Session(target), target, give_up)
    }

    /// Waits like [`Self::wait_until`], for an action that no program notices (a record, the end):
    /// the instant is not a deadline that a granter of the session's time has to know.
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

    /// Waits until `over` returns true. It is called at the first of the instants `awaited`, after
    /// every change and every [`Self::wake`].
    pub(super) fn wait_for(&self, awaited: &[Awaited], over: impl Fn(&State) -> bool) {
        let mut state = self.lock();
        let wait = state.await_all(awaited);
        while !over(&state) {
            let next = awaited.iter().filter_map(|one| state.when(*one)).min();
            // Beyond the instant at which the clock stops, only a change ends the wait.
            let next = next.filter(|next| *next <= state.ceiling);
            state = match next.and_then(|next| state.map.first_reaching(next)) {
                // Half a microsecond more, since the page may lag the exact map by its rounding.
                Some(due) => {
                    let left = due - wall_now() + Duration::from_ns(500);
                    let left = std::time::Duration::from_nanos(left.as_ns().max(1) as u64);
                    self.changed
                        .wait_timeout(state, left)
                        .unwrap_or_else(|e| e.into_inner())
                        .0
                }
                None => self.changed.wait(state).unwrap_or_else(|e| e.into_inner()),
            };
        }
        state.forget(wait);
    }

    /// Marks an instant at which no program notices anything (a limit of the run's).
    pub fn mark(self: &Arc<Self>, at: Instant<Virtual>) -> Mark {
        let wait = self.lock().await_all(&[Awaited::Background(at)]);
        Mark {
            clock: Arc::clone(self),
            wait,
        }
    }

    /// Returns the earliest instant that is awaited in this process or was announced.
    pub(crate) fn next_awaited(&self) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let awaited = state.awaited.iter().filter_map(|(_, one)| state.when(*one));
        awaited.chain(state.announced).min()
    }

    /// Returns the earliest instant awaited in this process, and the announced one.
    pub(crate) fn awaited_and_announced(&self) -> [Option<Instant<Virtual>>; 2] {
        let state = self.lock();
        let awaited = state.awaited.iter().filter_map(|(_, one)| state.when(*one));
        [awaited.min(), state.announced]
    }

    /// Returns the earliest of them at which a program may notice something.
    pub(crate) fn next_deadline(&self) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let awaited = state.awaited.iter().map(|(_, one)| *one);
        let noticed = awaited.filter(|one| !matches!(one, Awaited::Background(_)));
        let noticed = noticed.filter_map(|one| state.when(one));
        noticed.chain(state.announced).min()
    }

    /// Announces the next event of a component that follows this clock without waiting for it here:
    /// a simulated network. A clock that skips does not skip past it. The last announcement counts.
    pub fn announce(&self, next: Option<Instant<Virtual>>) {
        self.lock().announced = next;
    }

    /// Makes every [`Self::wait_until`] call its `give_up` again.
    pub fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
        self.woken.notify_all();
    }
}
