//! Whether everybody sleeps, and until when: what is compared with itself a moment later.

use std::fs;
use std::ops::RangeInclusive;

use timeloom_page::Shown;

use crate::clock::HostInstant;
use crate::linux::processes;
use crate::supervise::kick;
use crate::supervise::supervisor::Supervisor;
use crate::supervise::thread_state::ThreadState;

/// All threads of the guests that may go on, asleep.
#[derive(PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// What the scheduler has counted of each: the same twice means that it
    /// did not run in between.
    counts: Vec<(i32, String)>,
    pub(crate) waiting: Vec<Waiter>,
}

/// A thread that waits in virtual time.
#[derive(PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) pid: i32,
    pub(crate) thread: i32,
    pub(crate) deadline: Option<HostInstant<Shown>>,
}

/// Why there is no snapshot: this thread of a guest does not sleep.
pub(crate) struct Awake(pub(crate) i32);

impl Snapshot {
    pub(crate) fn of(supervisor: &Supervisor) -> Result<Self, Awake> {
        let mut snapshot = Self {
            counts: Vec::new(),
            waiting: Vec::new(),
        };
        for pid in supervisor.processes_not_held() {
            for thread in processes::threads(pid) {
                snapshot
                    .add(pid, thread, supervisor.wait_range())
                    .ok_or(Awake(thread))?;
            }
        }
        Ok(snapshot)
    }

    /// A child of these that is about to end, of which its parent does not know yet. The
    /// kernel takes it off the cgroup's list before it wakes the parent. A busy machine
    /// may leave it standing in between: all that are listed sleep then.
    pub(crate) fn ending_child(&self) -> Option<i32> {
        let threads = self.counts.iter().map(|(thread, _)| *thread);
        let mut children = threads.flat_map(processes::children);
        children.find(|&child| processes::is_ending(child))
    }

    /// What the scheduler has counted of the threads.
    pub(crate) fn counts(&self) -> &[(i32, String)] {
        &self.counts
    }

    /// `None` when it does not sleep.
    fn add(&mut self, pid: i32, thread: i32, wait: &RangeInclusive<u64>) -> Option<()> {
        if self.add_counts(pid, thread)? == Sleep::ForEver {
            return Some(());
        }
        let state = ThreadState::of(pid, thread)?;
        if wait.contains(&state.at) {
            let deadline = state.deadline(thread)?;
            self.waiting.push(Waiter {
                pid,
                thread,
                deadline,
            });
        }
        Some(())
    }

    fn add_counts(&mut self, pid: i32, thread: i32) -> Option<Sleep> {
        match processes::thread_state(thread) {
            Some('S') => {}
            // One that is dying (`X`) is about to let its parent know.
            Some('Z') | None => return Some(Sleep::ForEver),
            Some(_) => return None,
        }
        let counts = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        self.counts.push((thread, counts));
        Some(Sleep::UntilWoken)
    }
}

impl Waiter {
    /// Makes it look at the clock. To be called while it sleeps.
    pub(crate) fn kick(&self) {
        // Made sure of as one of a guest's, a moment ago, by who looked at it.
        if let Some(held) = kick::Held::new(self.pid, self.thread) {
            held.kick();
        }
    }
}

/// How a thread sleeps.
#[derive(PartialEq, Eq)]
enum Sleep {
    UntilWoken,
    /// It has ended.
    ForEver,
}
