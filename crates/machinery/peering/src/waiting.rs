//! Engines that follow a clock and wait for one another all the same: none goes past the
//! instant before which the others have promised that nothing more comes. Between threads
//! only ([`crate::Ring`]), since a datagram may be lost and a promise with it.
//!
//! Nothing is late then for the model. What the engines wait is lateness behind the clock,
//! which each counts of its own events.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual};

use crate::Portal;
use crate::ring::Neighbour;
use crate::transport::Transport;

impl Portal {
    /// From now on the engine waits for the others. All engines of a network do, or none.
    pub fn wait_for_others(&mut self) {
        self.waits = true;
    }

    /// The last instant that may be handled: what the others may still send arrives later.
    /// Of those that are gone nothing is awaited.
    pub fn safe_until(&self) -> Instant<Virtual> {
        if !self.waits {
            return Instant::FAR_FUTURE;
        }
        let safe = self.neighbours().map(|(_, one)| one.safe()).min();
        let awaited = safe.filter(|safe| *safe < Instant::FAR_FUTURE);
        awaited.map_or(Instant::FAR_FUTURE, |safe| safe - Duration::from_ns(1))
    }

    /// Whether the others have promised meanwhile that nothing more comes up to `until`.
    pub fn is_safe(&self, until: Instant<Virtual>) -> bool {
        self.neighbours().all(|(_, one)| one.has_promised(until))
    }

    /// Promises the others that the engine has lived up to `lived`, and has sent what left
    /// it by then ([`Portal::send`]).
    pub fn promise(&self, lived: Instant<Virtual>) {
        if self.waits {
            for (ahead, one) in self.neighbours() {
                one.promise(lived + ahead);
            }
        }
    }

    /// Asks all who have not promised that nothing more comes up to `until` to do so.
    pub fn wish(&self, until: Instant<Virtual>) {
        if self.waits {
            let at = until + Duration::from_ns(1);
            self.neighbours().for_each(|(_, one)| one.wish(at));
        }
    }

    /// How far the engine must have lived for the others to go on; `None` while nobody waits.
    pub fn wished(&self) -> Option<Instant<Virtual>> {
        let wishes = self
            .neighbours()
            .filter_map(|(ahead, one)| Some(one.wished()? - ahead));
        wishes.filter(|_| self.waits).min()
    }

    /// Waits until one of the others has sent or promised something, and at most for so long.
    /// Looks for it first, where each engine can have one of so many processors: to be woken
    /// takes longer than most promises.
    pub fn await_news(&self, most: Duration, cores: usize) {
        let began = wall_now();
        let has_news = || self.neighbours().any(|(_, one)| one.has_news());
        if usize::from(self.cut.engines()) <= cores {
            while wall_now() - began < PATIENCE {
                if has_news() {
                    return;
                }
                core::hint::spin_loop();
            }
        }
        if self.doze() && !has_news() {
            sleep_on(self.descriptors(), most);
        }
        self.wake();
    }

    fn neighbours(&self) -> impl Iterator<Item = (Duration, &Neighbour)> {
        self.adjacencies
            .iter()
            .filter_map(|adjacency| match &adjacency.transport {
                Transport::Ring(one) => Some((adjacency.ahead, &**one)),
                Transport::Udp(_) => None,
            })
    }
}

fn sleep_on<'a>(descriptors: impl Iterator<Item = BorrowedFd<'a>>, most: Duration) {
    let mut descriptors: Vec<PollFd<'_>> = descriptors
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    let time = Timespec {
        tv_sec: most.as_ns() / 1_000_000_000,
        tv_nsec: most.as_ns() % 1_000_000_000,
    };
    // Interrupted is as good as woken: the caller looks again.
    let _ = poll(&mut descriptors, Some(&time));
}

/// How long an engine looks for a promise before it sleeps.
const PATIENCE: Duration = Duration::from_us(20);
