//! Who in this process waits for an instant of the clock.

use timeloom_time::{Duration, Instant, Virtual};

use super::{Clock, wall_now};

/// Somebody waits for an instant.
pub(super) struct Awaited {
    number: u64,
    target: Instant<Virtual>,
    /// Programs notice nothing of what happens then.
    background: bool,
}

impl Clock {
    /// Waits until the clock shows `target`, through pauses and changes of
    /// rate, or until `give_up` says so (asked after every [`Self::wake`]).
    /// Returns whether the instant was reached.
    pub fn wait_until(&self, target: Instant<Virtual>, give_up: impl Fn() -> bool) -> bool {
        self.wait(target, false, give_up)
    }

    /// The same for somebody whose doings then no program notices (a record, the
    /// end): no deadline that whoever grants the session time has to know.
    pub fn wait_until_in_the_background(
        &self,
        target: Instant<Virtual>,
        give_up: impl Fn() -> bool,
    ) -> bool {
        self.wait(target, true, give_up)
    }

    fn wait(&self, target: Instant<Virtual>, background: bool, give_up: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        state.waits += 1;
        let number = state.waits;
        state.awaited.push(Awaited {
            number,
            target,
            background,
        });
        let reached = loop {
            if give_up() {
                break false;
            }
            if self.now() >= target {
                break true;
            }
            // Beyond the instant where the clock stops, only a change helps.
            let due = match target <= state.ceiling {
                true => state.map.first_reaching(target),
                false => None,
            };
            state = match due {
                // Half a microsecond more, since the page may lag the exact
                // map by its rounding.
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
        };
        state.awaited.retain(|other| other.number != number);
        reached
    }

    /// The earliest instant that a [`Self::wait_until`] waits for, or that was
    /// announced.
    pub(crate) fn next_awaited(&self) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let awaited = state.awaited.iter().map(|awaited| awaited.target);
        awaited.chain(state.announced).min()
    }

    /// The earliest of them after which a program may notice something.
    pub(crate) fn next_deadline(&self) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let awaited = state.awaited.iter().filter(|awaited| !awaited.background);
        let awaited = awaited.map(|awaited| awaited.target);
        awaited.chain(state.announced).min()
    }

    /// Says when the next thing happens in something that follows this clock
    /// without waiting for it here: a simulated network. A clock that skips
    /// skips no further. The last word counts.
    pub fn announce(&self, next: Option<Instant<Virtual>>) {
        self.lock().announced = next;
    }

    /// Makes every [`Self::wait_until`] ask its `give_up` again.
    pub fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
        self.woken.notify_all();
    }
}
