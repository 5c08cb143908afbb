//! Threads that wait in virtual time, sorted by deadline.

use std::collections::{BTreeMap, BTreeSet};

use timeloom_abi::PageTime;
use timeloom_time::{Instant, Virtual};

use crate::clock::{Clock, HostInstant};
use crate::supervise::snapshot::Waiter;

/// Waiting threads. Each deadline is in page time of the thread's host.
#[derive(Default)]
pub(crate) struct Waiting {
    threads: BTreeMap<i32, Wait>,
    /// Waiting threads with a deadline, by the number of their host.
    deadlines: BTreeMap<usize, BTreeSet<Entry>>,
}

/// Deadline, process identifier, thread identifier.
type Entry = (Instant<PageTime>, i32, i32);

/// Wait of a thread in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) pid: i32,
    /// Deadline of the wait; `None` if it has no limit.
    pub(crate) deadline: Option<HostInstant<PageTime>>,
}

/// Thread with the earliest deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    /// Session time of the thread's deadline.
    pub(crate) at: Instant<Virtual>,
    /// The same deadline in page time of the thread's host.
    pub(crate) deadline: HostInstant<PageTime>,
    pub(crate) pid: i32,
    pub(crate) thread: i32,
}

impl Waiting {
    /// Creates the collection of these waiting threads.
    pub(crate) fn of(waiters: Vec<Waiter>) -> Self {
        let mut all = Self::default();
        for Waiter {
            pid,
            thread,
            deadline,
        } in waiters
        {
            all.set(thread, Some(Wait { pid, deadline }));
        }
        all
    }

    /// Records the present wait of a thread. `None` means that the thread does not wait in virtual
    /// time.
    pub(crate) fn set(&mut self, thread: i32, wait: Option<Wait>) {
        let before = match wait {
            Some(wait) => self.threads.insert(thread, wait),
            None => self.threads.remove(&thread),
        };
        if before == wait {
            return;
        }
        if let Some(Wait {
            pid,
            deadline: Some(HostInstant { host, at }),
        }) = before
            && let Some(of_host) = self.deadlines.get_mut(&host)
        {
            of_host.remove(&(at, pid, thread));
        }
        if let Some(Wait {
            pid,
            deadline: Some(HostInstant { host, at }),
        }) = wait
        {
            self.deadlines
                .entry(host)
                .or_default()
                .insert((at, pid, thread));
        }
    }

    /// Returns the first thread, ordered by the session time of its deadline, then by the number of
    /// its host, process and thread. Ignores threads of hosts that are held.
    pub(crate) fn first(&self, clock: &Clock) -> Option<First> {
        let mut first: Option<First> = None;
        for (&host, deadlines) in &self.deadlines {
            let Some(&(earliest, ..)) = deadlines.first() else {
                continue;
            };
            if clock.is_held(host) {
                continue;
            }
            let when = |at| clock.first_of([HostInstant { host, at }]);
            let Some(at) = when(earliest) else {
                continue;
            };
            if first.is_some_and(|first| first.at <= at) {
                continue;
            }
            // Different deadlines in page time may be the same instant of session time.
            let together = deadlines
                .iter()
                .take_while(|(next, ..)| when(*next) == Some(at));
            let least = together.min_by_key(|(_, pid, thread)| (*pid, *thread));
            first = least.map(|&(shown, pid, thread)| First {
                at,
                deadline: HostInstant { host, at: shown },
                pid,
                thread,
            });
        }
        first
    }

    /// Returns all waiting threads of hosts that are not held.
    pub(crate) fn all(&self, clock: &Clock) -> Vec<Waiter> {
        let held = |wait: &Wait| {
            wait.deadline
                .is_some_and(|deadline| clock.is_held(deadline.host))
        };
        let going = self.threads.iter().filter(|(_, wait)| !held(wait));
        let waiter = |(&thread, wait): (&i32, &Wait)| Waiter {
            pid: wait.pid,
            thread,
            deadline: wait.deadline,
        };
        going.map(waiter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pid: i32, host: usize, ns: i64) -> Option<Wait> {
        let deadline = Some(HostInstant {
            host,
            at: Instant::from_ns(ns),
        });
        Some(Wait { pid, deadline })
    }

    fn deadlines(waiting: &Waiting) -> Vec<(usize, i64, i32)> {
        let of_host = |(host, all): (&usize, &BTreeSet<Entry>)| {
            let host = *host;
            all.iter()
                .map(move |(at, _, thread)| (host, at.as_ns(), *thread))
                .collect::<Vec<_>>()
        };
        waiting.deadlines.iter().flat_map(of_host).collect()
    }

    #[test]
    fn a_thread_has_one_deadline_at_most() {
        let mut waiting = Waiting::default();
        waiting.set(7, wait(5, 0, 30));
        waiting.set(8, wait(5, 1, 20));
        waiting.set(7, wait(5, 0, 10));
        assert_eq!(deadlines(&waiting), [(0, 10, 7), (1, 20, 8)]);
        waiting.set(
            7,
            Some(Wait {
                pid: 5,
                deadline: None,
            }),
        );
        assert_eq!(deadlines(&waiting), [(1, 20, 8)]);
        assert_eq!(waiting.threads.len(), 2, "it waits for ever");
        waiting.set(7, None);
        waiting.set(8, None);
        waiting.set(9, None);
        assert_eq!(deadlines(&waiting), []);
        assert!(waiting.threads.is_empty());
    }
}
