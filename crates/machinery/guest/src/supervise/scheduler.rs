//! Scheduling of threads in sessions in which the clock stands while any thread computes.
//!
//! The clock advances to the next deadline, and no further before every thread with that deadline
//! has had a turn: first the threads of this process (a timer, a plant, the network), then the
//! threads of the guests, one at a time. A thread's turn begins when all threads sleep again. The
//! order of turns is defined: by deadline, by the host's number, by the start of the program and of
//! the thread. So threads with the same behaviour in each run act in the same order and see the
//! same time.
//!
//! Threads woken by another thread (by a packet, a lock), or by the same timer, run concurrently.
//! The kernel decides their order at that instant; the number of such occasions is counted.
//!
//! A simulated network is one of the supervisor's own components. Its events between two deadlines
//! of programs happen in one move of the clock, unless data arrives at a program.
//!
//! A thread that spins until the clock advances would wait for ever. After much computing, or some
//! polling, at one instant ([`computing`](super::computing)) the clock is therefore advanced by
//! small steps, and the program is reported. Before each step, all other threads woken at that
//! instant must sleep again, so that the effects of a step happen at the instant of the step.

use std::collections::{BTreeMap, BTreeSet};

use timeloom_abi::PageTime;
use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::HostInstant;
use crate::linux::processes;
use crate::supervise::activity::First;
use crate::supervise::computing::{COMPUTING_NS, Computing, Counted, POLLING_NS, Rest, Spins};
use crate::supervise::interrupt;
use crate::supervise::shared_order::Acting;
use crate::supervise::skip::{Attempt, stopped};
use crate::supervise::snapshot::Snapshot;
use crate::supervise::supervisor::Supervisor;

/// Record of the order in which threads were scheduled, in a session in which computing takes no
/// time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulingRecord {
    /// Number of moves of the clock plus number of turns given to threads.
    pub turns: u64,
    /// Number of those turns and moves after which more than one thread ran, in an order chosen by
    /// the kernel. Pauses of the session count, since they wake all threads.
    pub shared: u64,
    /// Number of steps of the clock for threads that computed or polled.
    pub steps: u64,
    /// Names of the programs for which these steps were made.
    pub spinning: BTreeSet<String>,
}

/// State of the scheduling: the thread that had the last turn, and statistics at that time.
#[derive(Default)]
pub(crate) struct Scheduler {
    woken: Option<(i32, HostInstant<PageTime>)>,
    /// Additional time beyond its deadline that the thread needs, since its host's clock rounds
    /// differently.
    longer: Duration,
    /// Scheduler's statistics of each thread, when all threads last slept.
    counts: BTreeMap<i32, String>,
    /// Threads that were seen running at the present instant of the clock.
    computing: BTreeMap<i32, Computing>,
    /// Present period in which no thread has run except the spinning ones.
    rest: Option<Rest>,
}

impl Scheduler {
    /// Gives the next thread its turn while all threads sleep, as the snapshot `all` of /proc
    /// shows.
    pub(crate) fn next_of(
        &mut self,
        supervisor: &Supervisor,
        acting: &Acting,
        all: &Snapshot,
    ) -> Attempt {
        let clock = &supervisor.clock;
        let theirs = all.waiting.iter().filter_map(|waiter| {
            let deadline = waiter.deadline?;
            Some(First {
                at: clock.first_of([deadline])?,
                deadline,
                pid: waiter.pid,
                thread: waiter.thread,
            })
        });
        let order = |it: &First| (it.at, it.deadline.host, it.pid, it.thread);
        let first = theirs.min_by_key(order);
        let mut counts = std::mem::take(&mut self.counts);
        let attempt = self.next(supervisor, acting, first, || ran_since(&mut counts, all));
        self.counts = counts;
        attempt
    }

    /// Gives the next thread its turn while all threads sleep: `first`, which is the first of the
    /// guests' threads, or a thread of the supervisor. `ran` returns the number of threads that
    /// have run since it was last called.
    pub(crate) fn next(
        &mut self,
        supervisor: &Supervisor,
        acting: &Acting,
        first: Option<First>,
        ran: impl FnOnce() -> usize,
    ) -> Attempt {
        let clock = &supervisor.clock;
        let now = clock.now();
        let [awaited, announced] = clock.awaited_and_announced();
        let own = awaited.into_iter().chain(announced).min();
        if own.is_some_and(|own| own <= now) {
            // A component of the supervisor still has work at this instant.
            return Attempt::NotNow;
        }
        match first {
            Some(first) if first.at <= now => {
                if !acting.allows(now, Some(first.deadline.host)) {
                    return self.handed_over(supervisor, ran());
                }
                let woken = Some((first.thread, first.deadline));
                if self.woken == woken {
                    // The deadline has passed but the thread has not continued: its host's clock
                    // has rounded differently.
                    self.longer = (self.longer + self.longer).max(Duration::from_ns(1));
                    clock.skip_to(now + self.longer, || {});
                } else {
                    self.longer = Duration::ZERO;
                }
                self.woken = woken;
                self.note(supervisor, ran());
                interrupt::interrupt_asleep(first.pid, first.thread);
            }
            _ => {
                let at = first.map(|first| first.at);
                let Some(next) = own.into_iter().chain(at).min() else {
                    return match acting.has_no_event() {
                        true => self.handed_over(supervisor, ran()),
                        false => Attempt::NotNow,
                    };
                };
                let host = first.filter(|_| own.is_none_or(|own| own > next));
                if !acting.allows(next, host.map(|first| first.deadline.host)) {
                    return self.handed_over(supervisor, ran());
                }
                self.note(supervisor, ran());
                // The announced instant comes first. Many of the events after it may concern no
                // program, and happen in this one move.
                let limit = awaited.into_iter().chain(at).min();
                let limit = limit.unwrap_or(Instant::FAR_FUTURE).min(clock.stop());
                let limit = limit.min(acting.until());
                if announced != Some(next) || !supervisor.go_ahead(limit) {
                    clock.skip_to(next, || {});
                }
            }
        }
        Attempt::Skipped
    }

    /// Returns one of `threads`, none of which sleep, that must compute further before anything
    /// else happens. Returns `None` if all of them have spun for long.
    pub(crate) fn computing(&mut self, threads: &[i32]) -> Option<i32> {
        let mut at_work = threads.iter().copied();
        at_work.find(|&thread| {
            let Some(now) = Counted::of(thread) else {
                return true;
            };
            let seen = self.computing.entry(thread);
            seen.or_insert_with(|| Computing::new(now))
                .look(now)
                .is_none()
        })
    }

    /// Advances the clock by a small step for spinning threads, while all other threads sleep.
    pub(crate) fn step(
        &mut self,
        supervisor: &Supervisor,
        acting: &Acting,
        all: &Snapshot,
    ) -> Attempt {
        if let Some(thread) = self.computing(&all.at_work) {
            return Attempt::Busy(thread);
        }
        if let Some(thread) = self.has_not_looked(supervisor.clock.now(), all) {
            return Attempt::Busy(thread);
        }
        let mut uses_processor = false;
        for &thread in &all.at_work {
            let (Some(now), Some(seen)) = (Counted::of(thread), self.computing.get_mut(&thread))
            else {
                continue;
            };
            uses_processor |= seen.uses_processor(now);
            if let Some(why) = seen.look(now) {
                // After this record, the next step for the thread comes sooner.
                seen.passed(now, why);
                name_spinning(supervisor, thread, why);
            }
        }
        let clock = &supervisor.clock;
        let now = clock.now();
        let [awaited, announced] = clock.awaited_and_announced();
        let deadlines = all.waiting.iter().filter_map(|waiter| waiter.deadline);
        let due = awaited.into_iter().chain(clock.first_of(deadlines));
        let limit = due.min().map_or(now + STEP, |due| due.min(now + STEP));
        // A thread whose host's clock has rounded differently needs a little more time.
        let limit = limit.max(now + Duration::from_ns(1));
        if !acting.allows_step(limit) {
            return self.handed_over(supervisor, 0);
        }
        supervisor.with_order(|order| order.steps += 1);
        move_frozen(supervisor, limit, announced, uses_processor)
    }

    /// Returns a spinning thread that may not have seen the effects of this instant yet.
    fn has_not_looked(&mut self, now: Instant<Virtual>, all: &Snapshot) -> Option<i32> {
        let rest = self
            .rest
            .take()
            .filter(|rest| rest.lasts(now, all.counts()));
        let mut rest = rest.unwrap_or_else(|| Rest::new(now, all.counts()));
        let least_ns = STEP.as_ns().unsigned_abs();
        let waited_for = all.at_work.iter().copied().filter(|&thread| {
            // This is evaluated for each thread: a thread's processor time counts from the first
            // evaluation.
            Counted::of(thread).is_some_and(|now| !rest.has_spent(thread, now, least_ns))
        });
        let waited_for = waited_for.last();
        self.rest = Some(rest);
        waited_for
    }

    /// Records that another session acts next, with the number of threads that ran before.
    fn handed_over(&mut self, supervisor: &Supervisor, ran: usize) -> Attempt {
        self.computing.clear();
        supervisor.with_order(|order| order.shared += u64::from(ran > 1));
        Attempt::HandedOver
    }

    /// Records the end of a turn, with the number of threads that ran in it.
    fn note(&mut self, supervisor: &Supervisor, ran: usize) {
        self.computing.clear();
        supervisor.with_order(|order| {
            order.turns += 1;
            order.shared += u64::from(ran > 1);
        });
    }
}

/// Returns the number of threads in `all` that have run since the statistics `counts` were taken,
/// and updates `counts`.
fn ran_since(counts: &mut BTreeMap<i32, String>, all: &Snapshot) -> usize {
    let now: BTreeMap<i32, String> = all.counts().iter().cloned().collect();
    let has_run = |(thread, count): &(&i32, &String)| counts.get(*thread) != Some(*count);
    let ran = now.iter().filter(has_run).count();
    *counts = now;
    ran
}

/// Reports, once for each program, that the clock is advanced for it.
fn name_spinning(supervisor: &Supervisor, thread: i32, why: Spins) {
    let name = processes::name(processes::process_of(thread));
    if !supervisor.with_order(|order| order.spinning.insert(name.clone())) {
        return;
    }
    let (what, ns, doubt) = match why {
        Spins::Computes => (
            "computed",
            COMPUTING_NS,
            "does it poll the clock in a loop?",
        ),
        Spins::Polls => ("polled", POLLING_NS, "does it wait without sleeping?"),
    };
    let spent = Duration::from_ns(ns as i64);
    (supervisor.warn)(format!(
        "{name} has {what} for {spent} at one instant of the clock, which stands meanwhile ({doubt}); \
         time now passes for it in steps of {STEP}, and this session may not reproduce"
    ));
}

/// Advances the clock to `limit`, or to an earlier announced instant, while a thread computes. If
/// the thread uses processor time, advances the shown processor time as well.
fn move_frozen(
    supervisor: &Supervisor,
    limit: Instant<Virtual>,
    announced: Option<Instant<Virtual>>,
    uses_processor: bool,
) -> Attempt {
    let limit = limit.min(supervisor.clock.stop());
    let ahead = announced.is_some_and(|at| at <= limit);
    stopped(supervisor, |pids| {
        let before = supervisor.clock.now();
        if !ahead || !supervisor.go_ahead(limit) {
            let next = announced.map_or(limit, |at| at.min(limit));
            supervisor.clock.skip_to(next, || {});
        }
        if uses_processor {
            let step = supervisor.clock.now() - before;
            supervisor.clock.add_computed(step);
        }
        // All guests are stopped, even if a component of the supervisor already has data for them.
        interrupt::interrupt_waiting(pids, supervisor.wait_range());
    })
}

/// Step by which the clock advances for spinning threads.
const STEP: Duration = Duration::from_ms(1);
