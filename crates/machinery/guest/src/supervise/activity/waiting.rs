//! Threads that wait in virtual time, by deadline.

use std::collections::{BTreeMap, BTreeSet};

use timeloom_page::Shown;
use timeloom_time::{Instant, Virtual};

use crate::clock::{Clock, HostInstant};
use crate::supervise::snapshot::Waiter;

/// Deadlines of threads, each on the clock of its host.
#[derive(Default)]
pub(crate) struct Waiting {
    threads: BTreeMap<i32, Wait>,
    /// Indexed by the number of a host.
    deadlines: BTreeMap<usize, BTreeSet<Entry>>,
}

/// Deadline, process, thread.
type Entry = (Instant<Shown>, i32, i32);

/// State of a waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) pid: i32,
    /// Deadline; `None` for a wait without a limit.
    pub(crate) deadline: Option<HostInstant<Shown>>,
}

/// Thread with the earliest deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    /// Instant of its deadline.
    pub(crate) at: Instant<Virtual>,
    /// The same instant by the clock of its host.
    pub(crate) deadline: HostInstant<Shown>,
    pub(crate) pid: i32,
    pub(crate) thread: i32,
}

impl Waiting {
    /// Collects these threads.
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

    /// Records the present wait of a thread; `None` if it does not wait in virtual time.
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

    /// Returns the first thread, ordered by the instant of its deadline, the number of its host,
    /// process and thread. Threads of held hosts are ignored.
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
            // Different deadlines may fall on the same instant of the session.
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

    /// Returns all threads that wait on hosts that are not held.
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
