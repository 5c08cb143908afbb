//! Rest by events: the kernel's scheduler reports which threads run, so that nobody has to look.
//!
//! [`Activity`] is what [`skip`](super::skip) asks instead of reading /proc of each thread, where
//! BPF can be had (root, Linux 6.1 with BTF). Its cost follows the threads that have run, not
//! those that sleep. Three parts:
//!
//! - `kernel`: the programs of BPF (`bpf/awake.bpf.c`) and the word that they keep: how many
//!   threads, softirqs and works are not at rest, and how often that has changed.
//! - `waiting`: the threads that wait in virtual time, in the order of their deadlines.
//! - this file: rest is an instant at which the word is zero, and is the same after everything
//!   else was asked.
//!
//! Threads that slept or ran before the programs were loaded are unknown to them until they are
//! woken or blocked. So the first rest is found by looking at /proc, as without BPF; likewise
//! after anything was lost for want of room.

mod kernel;
mod waiting;

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant as StdInstant};

pub(crate) use kernel::Word;
pub(crate) use waiting::{First, Waiting};

use crate::supervise::own_threads::OwnThreads;
use crate::supervise::snapshot::Snapshot;
use crate::supervise::supervisor::Supervisor;
use kernel::{Kernel, Setup};

/// Which threads of a session run, by events of the scheduler.
pub(crate) struct Activity {
    kernel: Kernel,
    /// Threads that wait in virtual time, as of the last rest.
    pub(crate) waiting: Waiting,
    /// Guests' threads that have run since [`Self::take_ran`].
    ran: BTreeSet<i32>,
    /// Members and log entries lost by when `waiting` was last read from /proc; none yet.
    complete_at: Option<u64>,
}

impl Activity {
    /// Begins to count for the calling thread, which is not counted itself.
    ///
    /// # Errors
    /// The session has no cgroup, the kernel lacks what is needed, or this process may not
    /// load programs of BPF.
    pub(crate) fn new(supervisor: &Supervisor) -> io::Result<Self> {
        let cgroup = supervisor.freezer.cgroup();
        let cgroup = cgroup.ok_or_else(|| io::Error::other("the session has no cgroup"))?;
        Ok(Self {
            kernel: Kernel::load(&Setup::of_this_thread(cgroup, supervisor.wait_range())?)?,
            waiting: Waiting::default(),
            ran: BTreeSet::new(),
            complete_at: None,
        })
    }

    /// Waits until nothing runs, for no longer than `patience`.
    pub(crate) fn wait_for_rest(&mut self, patience: Duration) -> Option<Word> {
        let begun = StdInstant::now();
        loop {
            let word = self.kernel.word();
            if word.is_rest() {
                return Some(word);
            }
            let waited = begun.elapsed();
            if waited >= patience {
                return None;
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                self.kernel.sleep_until_rest(patience - waited, |thread| {
                    self.ran.insert(thread);
                });
            }
        }
    }

    /// Whether nothing has begun to run since `word` was read.
    pub(crate) fn is_still(&self, word: Word) -> bool {
        self.kernel.word() == word
    }

    /// Brings `waiting` up to date with what the threads have done until this rest. Returns
    /// false when that cannot be told yet.
    pub(crate) fn update(&mut self, supervisor: &Supervisor, own: &mut OwnThreads) -> bool {
        let mut stirred = BTreeSet::new();
        self.kernel.take_log(|thread| {
            stirred.insert(thread);
        });
        stirred.append(&mut self.ran.clone());
        for &thread in &stirred {
            self.waiting.set(thread, self.kernel.wait_of(thread));
        }
        self.ran.append(&mut stirred);
        let lost = self.kernel.lost();
        if self.complete_at == Some(lost) {
            return true;
        }
        let (true, Ok(first)) = (own.slept(), Snapshot::of(supervisor)) else {
            return false;
        };
        let Ok(all) = Snapshot::of(supervisor) else {
            return false;
        };
        if first != all {
            return false;
        }
        self.waiting = Waiting::of(all.waiting);
        self.complete_at = Some(lost);
        true
    }

    /// How many threads have run since this was called last.
    pub(crate) fn take_ran(&mut self) -> usize {
        let count = self.ran.len();
        self.ran.clear();
        count
    }

    /// Drops what was counted and never ends: works that were cancelled. For a caller that
    /// has found by other means that all rest.
    pub(crate) fn forget_cancelled(&mut self) {
        self.kernel.forget_works_before(FORGOTTEN_AFTER);
    }
}

/// How long rest is awaited without sleeping: a wake-up costs about as much.
const SPIN: Duration = Duration::from_micros(40);

/// A work that was queued so long ago and has not ended was cancelled.
const FORGOTTEN_AFTER: Duration = Duration::from_millis(50);
