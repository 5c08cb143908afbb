//! Waiting for other engines while following a clock. No engine passes an instant before the others
//! have promised that no further packet arrives until then. This works only between threads
//! ([`crate::peering::Ring`]), since a datagram may be lost, and a promise with it.
//!
//! No packet is then late for the model. The time spent waiting becomes lateness behind the clock,
//! which each engine counts for its own events.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual};

use crate::peering::Portal;
use crate::peering::ring::Neighbour;
use crate::peering::transport::Transport;

impl Portal {
    /// Makes the engine wait for the others from now on. Either all engines of a network must wait,
    /// or none.
    pub fn wait_for_others(&mut self) {
        self.waits = true;
    }

    /// States that no engine sends anything before `floor` that has not been put into a ring yet: a
    /// promise of all engines at once, known to a caller that has seen all of them at rest. Must
    /// precede [`Portal::receive`].
    pub fn raise_floor(&mut self, floor: Instant<Virtual>) {
        self.floor = self.floor.max(floor);
    }

    /// Returns the last instant whose events may be handled. All packets that the others may still
    /// send arrive later. An absent engine imposes no limit.
    pub fn safe_until(&self) -> Instant<Virtual> {
        if !self.waits {
            return Instant::FAR_FUTURE;
        }
        let safe = self.neighbours().map(|(_, one)| one.safe()).min();
        let Some(promised) = safe.filter(|safe| *safe < Instant::FAR_FUTURE) else {
            return Instant::FAR_FUTURE;
        };
        // Packets left in a ring may arrive sooner.
        let is_drained = self.neighbours().all(|(_, one)| one.is_drained());
        let safe = match is_drained {
            true => promised.max(self.floor + self.cut.lookahead()),
            false => promised,
        };
        safe - Duration::from_ns(1)
    }

    /// Returns true if the others have promised by now that no further packet arrives up to
    /// `until`.
    pub fn is_safe(&self, until: Instant<Virtual>) -> bool {
        self.neighbours().all(|(_, one)| one.has_promised(until))
    }

    /// Promises the other engines that this engine has reached `lived`. All packets that left it by
    /// then must have been sent ([`Portal::send`]).
    pub fn promise(&self, lived: Instant<Virtual>) {
        if self.waits {
            for (ahead, one) in self.neighbours() {
                one.promise(lived + ahead);
            }
        }
    }

    /// Requests a promise up to `until` from all engines that have not yet promised that much.
    pub fn wish(&self, until: Instant<Virtual>) {
        if self.waits {
            let at = until + Duration::from_ns(1);
            self.neighbours().for_each(|(_, one)| one.wish(at));
        }
    }

    /// Returns the instant that this engine must reach so that the others can continue; `None` if
    /// no engine waits for it.
    pub fn wished(&self) -> Option<Instant<Virtual>> {
        let wishes = self
            .neighbours()
            .filter_map(|(ahead, one)| Some(one.wished()? - ahead));
        wishes.filter(|_| self.waits).min()
    }

    /// Waits at most `most` until another engine has sent or promised something. If each engine can
    /// have one of `cores` processors, the thread polls first, because a wake-up takes longer than
    /// most promises.
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
                Transport::Udp(_) | Transport::Streamed(_) => None,
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
    // An interrupted wait is like a wake-up, because the caller checks again.
    let _ = poll(&mut descriptors, Some(&time));
}

/// Time for which an engine polls for a promise before its thread sleeps.
const PATIENCE: Duration = Duration::from_us(20);
