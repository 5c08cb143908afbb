//! Detection of rest by events: the kernel's scheduler reports which threads run, so that no
//! polling is needed. *Rest* means that nothing runs that could affect the session's programs.
//!
//! If BPF is available (root, Linux 6.1 with BTF), [`skip`](super::skip) queries [`Activity`]
//! instead of reading /proc for each thread. The cost then depends on the number of threads that
//! have run, not on the number that sleep. There are three parts:
//!
//! - `kernel`: the BPF programs (`bpf/awake.bpf.c`) and the word that they share with this process:
//!   the number of threads, softirqs and work items that are not at rest and of network queues that
//!   hold frames back, and a count of changes.
//! - `waiting`: the threads that wait in virtual time, in the order of their deadlines.
//! - this file: detects rest as an instant at which that number is zero, and the word is unchanged
//!   after all other sources were queried.
//!
//! After loading, the BPF programs do not know the existing threads until these wake up or block.
//! The waits of these threads are therefore read from /proc, once. The same applies after an
//! overflow of a map.

mod kernel;
mod waiting;

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant as StdInstant};

pub(crate) use kernel::Word;
pub(crate) use waiting::{First, Waiting};

use crate::supervise::own_threads::OwnThreads;
use crate::supervise::snapshot::{Snapshot, Waiter};
use crate::supervise::supervisor::Supervisor;
use kernel::{Kernel, Setup};

/// Detector of rest by scheduler events.
pub(crate) struct Activity {
    kernel: Kernel,
    /// Threads that wait in virtual time, as of the last rest.
    pub(crate) waiting: Waiting,
    /// Guest threads that have run since the last [`Self::take_ran`].
    ran: BTreeSet<i32>,
    /// Number of lost members and log entries at the last complete read of /proc; `None` before the
    /// first.
    complete_at: Option<u64>,
    /// Wall time for which the next wait for rest lasts at most.
    patience: Duration,
    /// Instant from which the threads of all guests must be searched for rest, unless rest is
    /// reported before; `None` after such a report.
    search_at: Option<StdInstant>,
}

impl Activity {
    /// Loads the BPF programs and starts counting. The calling thread itself is not counted.
    ///
    /// # Errors
    /// Fails if the session has no cgroup, the kernel lacks a feature, or this process may not load
    /// BPF programs.
    pub(crate) fn new(supervisor: &Supervisor) -> io::Result<Self> {
        let cgroup = supervisor.freezer.cgroup();
        let cgroup = cgroup.ok_or_else(|| io::Error::other("the session has no cgroup"))?;
        Ok(Self {
            kernel: Kernel::load(&Setup::of_this_thread(
                cgroup,
                supervisor.wait_range(),
                supervisor.networks.get().cloned().unwrap_or_default(),
            )?)?,
            waiting: Waiting::default(),
            ran: BTreeSet::new(),
            complete_at: None,
            patience: FIRST_LOOK,
            search_at: None,
        })
    }

    /// Blocks until nothing runs, for some milliseconds of wall time at most. Returns the word at
    /// rest, or `None` if something still runs.
    pub(crate) fn wait_for_rest(&mut self) -> Option<Word> {
        let begun = StdInstant::now();
        loop {
            let word = self.kernel.word();
            if word.is_rest() {
                self.patience = FIRST_LOOK;
                self.search_at = None;
                return Some(word);
            }
            let waited = begun.elapsed();
            if waited >= self.patience {
                self.search_at.get_or_insert(begun + SEARCH_AFTER);
                return None;
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                let left = self.patience - waited;
                self.kernel.sleep_until_rest(left, |thread| {
                    self.ran.insert(thread);
                });
            }
        }
    }

    /// Returns the guest threads that run or are ready to run.
    pub(crate) fn running_guests(&self) -> Vec<i32> {
        self.kernel.running_guests()
    }

    /// Returns true if the threads of all guests must be searched for rest, since none was reported
    /// for long: the number of threads at work may be wrong.
    pub(crate) fn must_search(&self) -> bool {
        self.search_at.is_some_and(|at| StdInstant::now() >= at)
    }

    /// Makes the next wait for rest longer: what runs need not be looked at often.
    pub(crate) fn be_patient(&mut self) {
        self.patience = (self.patience * 2).min(LONGEST_WORK);
    }

    /// Records a search of all threads, and whether it has found rest. If it has, the next search
    /// follows soon: threads that spin run all the time, and lost events may be the reason.
    pub(crate) fn searched(&mut self, found_rest: bool) {
        let now = StdInstant::now();
        self.search_at = Some(if found_rest { now } else { now + SEARCH_AFTER });
        self.patience = LONG_WORK;
    }

    /// Returns true if nothing runs now.
    pub(crate) fn rests(&self) -> bool {
        self.kernel.word().is_rest()
    }

    /// Returns true if nothing has started to run since `word` was read.
    pub(crate) fn is_still(&self, word: Word) -> bool {
        self.kernel.word() == word
    }

    /// Returns true if a guest thread has run since the last [`Self::take_ran`].
    pub(crate) fn has_run(&mut self) -> bool {
        self.read_log();
        !self.ran.is_empty()
    }

    fn read_log(&mut self) {
        self.kernel.take_log(|thread| {
            self.ran.insert(thread);
        });
    }

    /// Updates `waiting` with the threads that have run until this rest. Returns false if the state
    /// of all threads is not known yet.
    pub(crate) fn update(&mut self, supervisor: &Supervisor, own: &mut OwnThreads) -> bool {
        self.read_log();
        for &thread in &self.ran {
            self.waiting.set(thread, self.kernel.wait_of(thread));
        }
        let lost = self.kernel.lost();
        if self.complete_at == Some(lost) {
            return true;
        }
        self.read_all(supervisor, own, lost)
    }

    /// Reads the waits of all threads from /proc, once. Returns false if the state of a thread
    /// remains unknown.
    ///
    /// A thread that the BPF programs have not seen has not run since they count. If it sleeps, it
    /// is counted from its wake-up on. A thread that they have seen is counted, and its wait is the
    /// one that they have recorded, or will record and log. So it does not matter whether threads
    /// run meanwhile. The programs record no wait of a thread whose memory they could not read,
    /// which counts as a loss; its wait is that of /proc, too.
    fn read_all(&mut self, supervisor: &Supervisor, own: &mut OwnThreads, lost: u64) -> bool {
        if !own.slept() {
            return false;
        }
        let Ok(all) = Snapshot::with_those_at_work(supervisor) else {
            return false;
        };
        let is_counted = |thread: &i32| self.kernel.has_seen(*thread);
        // A thread for which there was no room in the map is not counted.
        if !all.at_work.iter().all(is_counted) || self.kernel.lost() != lost {
            return false;
        }
        let sleeping = all.counts().iter().map(|(thread, _)| *thread);
        let recorded = sleeping.filter_map(|thread| {
            let wait = self.kernel.wait_of(thread)?;
            Some(Waiter {
                pid: wait.pid,
                thread,
                deadline: wait.deadline,
            })
        });
        self.waiting = Waiting::of(completed(recorded.collect(), all.waiting));
        self.complete_at = Some(lost);
        true
    }

    /// Returns the number of guest threads that have run since the last call.
    pub(crate) fn take_ran(&mut self) -> usize {
        let count = self.ran.len();
        self.ran.clear();
        count
    }

    /// Returns true if the kernel has deferred work that may concern the session: a softirq, a work
    /// item, or a frame that a queue holds back.
    pub(crate) fn is_deferred(&self) -> bool {
        self.kernel.is_deferred()
    }

    /// Drops counted work items that were cancelled and therefore never end.
    pub(crate) fn forget_cancelled(&mut self) {
        self.kernel.forget_works_before(FORGOTTEN_AFTER);
    }
}

/// Adds to the waits that the BPF programs have recorded those that were only read from /proc.
fn completed(mut recorded: Vec<Waiter>, read: Vec<Waiter>) -> Vec<Waiter> {
    let known: BTreeSet<i32> = recorded.iter().map(|waiter| waiter.thread).collect();
    let others = read.into_iter();
    recorded.extend(others.filter(|waiter| !known.contains(&waiter.thread)));
    recorded
}

/// Wall time for which a wait for rest spins before it blocks. Waking a blocked thread costs about
/// as much.
const SPIN: Duration = Duration::from_micros(40);

/// Wall time of running after which threads that compute without end, or poll, are looked for.
const FIRST_LOOK: Duration = Duration::from_millis(8);

/// Wall time between two searches while such threads are the only ones that run.
const LONG_WORK: Duration = Duration::from_millis(3);

/// Longest wall time between two looks at threads that compute.
const LONGEST_WORK: Duration = Duration::from_millis(32);

/// Wall time without rest after which /proc is searched for it.
const SEARCH_AFTER: Duration = Duration::from_millis(200);

/// Wall time after which a queued work item counts as cancelled.
const FORGOTTEN_AFTER: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    /// A BPF program that cannot read a deadline leaves no record, for a thread that it counts.
    #[test]
    fn a_wait_without_a_record_is_that_of_proc() {
        let waiter = |thread, deadline| Waiter {
            pid: 1,
            thread,
            deadline,
        };
        let recorded = vec![waiter(2, None), waiter(4, None)];
        let read = Vec::from([3, 4].map(|thread| waiter(thread, None)));
        let threads = completed(recorded, read).into_iter();
        let threads: Vec<i32> = threads.map(|waiter| waiter.thread).collect();
        assert_eq!(threads, [2, 4, 3]);
    }
}
