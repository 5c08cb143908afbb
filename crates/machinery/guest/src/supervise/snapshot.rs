//! Snapshot of the states of all threads, with the deadlines of their waits. Two snapshots a moment
//! apart are compared.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::RangeInclusive;

use timeloom_abi::PageTime;

use crate::clock::HostInstant;
use crate::linux::processes;
use crate::supervise::interrupt;
use crate::supervise::supervisor::Supervisor;
use crate::supervise::thread_state::ThreadState;

/// Threads of guests that are not held: those that sleep, and those that do not.
#[derive(PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Scheduler's statistics of each sleeping thread. Unchanged statistics mean that the thread
    /// did not run between two snapshots.
    counts: Vec<(i32, String)>,
    pub(crate) waiting: Vec<Waiter>,
    /// Threads that do not sleep. Empty in a snapshot taken by [`Snapshot::of`].
    pub(crate) at_work: Vec<i32>,
}

/// Thread that waits in virtual time.
#[derive(PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) pid: i32,
    pub(crate) thread: i32,
    pub(crate) deadline: Option<HostInstant<PageTime>>,
}

/// Reason why there is no snapshot.
pub(crate) enum NoSnapshot {
    /// This guest thread does not sleep.
    Awake(i32),
    /// The state of a thread is unknown: no descriptor or no memory is left.
    Unreadable,
}

impl Snapshot {
    /// Takes a snapshot. Fails unless all threads sleep.
    pub(crate) fn of(supervisor: &Supervisor) -> Result<Self, NoSnapshot> {
        Self::look(supervisor, |_, thread| Err(NoSnapshot::Awake(thread)))
    }

    /// Takes a snapshot of threads some of which may be running.
    pub(crate) fn with_those_at_work(supervisor: &Supervisor) -> Result<Self, NoSnapshot> {
        Self::look(supervisor, |snapshot, thread| {
            snapshot.at_work.push(thread);
            Ok(())
        })
    }

    fn look(
        supervisor: &Supervisor,
        awake: impl Fn(&mut Self, i32) -> Result<(), NoSnapshot>,
    ) -> Result<Self, NoSnapshot> {
        let unreadable = |_| NoSnapshot::Unreadable;
        let pids = supervisor
            .processes_not_held()
            .map_err(|_| NoSnapshot::Unreadable)?;
        let mut snapshot = Self {
            counts: Vec::new(),
            waiting: Vec::new(),
            at_work: Vec::new(),
        };
        for pid in pids {
            for thread in processes::try_threads(pid).map_err(unreadable)? {
                let added = snapshot.add(pid, thread, supervisor.wait_range());
                if added.map_err(unreadable)?.is_none() {
                    awake(&mut snapshot, thread)?;
                }
            }
        }
        Ok(snapshot)
    }

    /// Returns a child of the sleeping threads that is awake and that the snapshot lacks. One case
    /// is a child that is about to end and whose parent has not been notified yet: the kernel
    /// removes it from the cgroup's list before it wakes the parent, and on a busy machine it may
    /// be preempted in between. The other case is a child that was forked after the list was read,
    /// and that may have left the list when it is read again.
    pub(crate) fn stirring_child(&self) -> Option<i32> {
        let threads = || self.counts.iter().map(|(thread, _)| *thread);
        let listed: BTreeSet<i32> = threads().chain(self.at_work.iter().copied()).collect();
        let mut children = threads().flat_map(processes::children);
        children.find(|child| {
            processes::is_ending(*child)
                || !listed.contains(child) && matches!(processes::state(*child), Some('R' | 'D'))
        })
    }

    /// Returns the sleeping threads, each with the scheduler's statistics.
    pub(crate) fn counts(&self) -> &[(i32, String)] {
        &self.counts
    }

    /// Adds a thread to the snapshot. Returns `None` if it does not sleep.
    ///
    /// # Errors
    /// Fails if its state cannot be read.
    fn add(&mut self, pid: i32, thread: i32, wait: &RangeInclusive<u64>) -> io::Result<Option<()>> {
        match processes::thread_state(thread)? {
            Some('S') => Ok(self.add_sleeping(pid, thread, wait)),
            // The thread has ended. In state `X` it is ending, and about to notify its parent.
            Some('Z') | None => Ok(Some(())),
            Some(_) => Ok(None),
        }
    }

    /// Adds a thread that sleeps until it is woken. Returns `None` if it has woken meanwhile.
    fn add_sleeping(&mut self, pid: i32, thread: i32, wait: &RangeInclusive<u64>) -> Option<()> {
        let counts = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        self.counts.push((thread, counts));
        let Some(deadline) = ThreadState::of(pid, thread).and_then(|state| {
            let waits = wait.contains(&state.at);
            waits
                .then(|| state.deadline(thread))
                .map_or(Some(None), |deadline| deadline.map(Some))
        }) else {
            // The thread has woken meanwhile, or is about to.
            self.counts.pop();
            return None;
        };
        if let Some(deadline) = deadline {
            self.waiting.push(Waiter {
                pid,
                thread,
                deadline,
            });
        }
        Some(())
    }
}

impl Waiter {
    /// Makes the thread read the clock and recompute its timeout. To be called while it sleeps.
    pub(crate) fn interrupt(&self) {
        interrupt::interrupt_asleep(self.pid, self.thread);
    }
}
