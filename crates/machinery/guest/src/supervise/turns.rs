//! Time that stands while anybody computes, and whose turn it is when all wait.
//!
//! The clock moves to the next deadline, and no further before everybody whose deadline
//! that is has had a turn: first those of this process (a timer, a plant, the network),
//! then the threads of the guests, one at a time, each when all sleep again. Their order
//! is written: by deadline, by the host's number, by when program and thread began. So
//! threads that do the same thing in each run do it in the same order and see the same
//! time.
//!
//! Whom one thread wakes (by a packet, a lock) runs beside it, and whom a timer wakes
//! beside others that it wakes. What such threads do at one instant is in the kernel's
//! order; it is counted how often that was so.
//!
//! A simulated network is one of ours. What happens in it between two programs' deadlines
//! passes in one move of the clock, unless it comes out at a program.
//!
//! A thread that spins until the clock moves would wait for ever. After much computing,
//! or some polling, at one instant ([`computing`](super::computing)) the clock is moved
//! by small steps, and the program named. Whoever else was woken at that instant is waited
//! for first: so what a step brings is done at the instant at which it came.

use std::collections::{BTreeMap, BTreeSet};

use timeloom_page::Shown;
use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::HostInstant;
use crate::linux::processes;
use crate::supervise::activity::First;
use crate::supervise::computing::{COMPUTING_NS, Computing, Counted, POLLING_NS, Rest, Spins};
use crate::supervise::kick;
use crate::supervise::skip::{Attempt, stopped};
use crate::supervise::snapshot::Snapshot;
use crate::supervise::supervisor::Supervisor;

/// What is to be said of the order in which threads had their turns, in a session whose
/// computing takes no time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// How often the clock moved or a thread was given its turn.
    pub turns: u64,
    /// After how many of these more than one thread ran, whose order among each other
    /// is the kernel's. Pauses of the session count, for they wake all.
    pub shared: u64,
    /// How many steps the clock was given while a thread computed.
    pub steps: u64,
    /// The programs for which it was.
    pub spinning: BTreeSet<String>,
}

/// Who had the last turn, and what was counted then.
#[derive(Default)]
pub(crate) struct Turns {
    woken: Option<(i32, HostInstant<Shown>)>,
    /// How much longer than its deadline it needs.
    longer: Duration,
    /// What the scheduler had counted of each thread when all slept last.
    counts: BTreeMap<i32, String>,
    /// Threads that were seen at work at this instant.
    computing: BTreeMap<i32, Computing>,
    /// Since when nobody else has stirred.
    rest: Option<Rest>,
}

impl Turns {
    /// Resumes the next thread while all sleep, according to a snapshot of /proc.
    pub(crate) fn next_of(&mut self, supervisor: &Supervisor, all: &Snapshot) -> Attempt {
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
        let attempt = self.next(supervisor, first, || ran_since(&mut counts, all));
        self.counts = counts;
        attempt
    }

    /// Resumes the next thread while all sleep: `first` of the guests' threads, or one of the
    /// supervisor's. `ran` returns the number of threads that have run since its last call.
    pub(crate) fn next(
        &mut self,
        supervisor: &Supervisor,
        first: Option<First>,
        ran: impl FnOnce() -> usize,
    ) -> Attempt {
        let clock = &supervisor.clock;
        let now = clock.now();
        let [awaited, announced] = clock.awaited_and_announced();
        let own = awaited.into_iter().chain(announced).min();
        if own.is_some_and(|own| own <= now) {
            // One of ours has something to do yet at this instant.
            return Attempt::NotNow;
        }
        match first {
            Some(first) if first.at <= now => {
                let woken = Some((first.thread, first.deadline));
                if self.woken == woken {
                    // The clock of its host has rounded otherwise.
                    self.longer = (self.longer + self.longer).max(Duration::from_ns(1));
                    clock.skip_to(now + self.longer, || {});
                } else {
                    self.longer = Duration::ZERO;
                }
                self.woken = woken;
                self.note(supervisor, ran());
                kick::kick_asleep(first.pid, first.thread);
            }
            _ => {
                let at = first.map(|first| first.at);
                let Some(next) = own.into_iter().chain(at).min() else {
                    return Attempt::NotNow;
                };
                self.note(supervisor, ran());
                // What was announced comes first: of what follows, much may concern no
                // program, and passes in this one move.
                let limit = awaited.into_iter().chain(at).min();
                let limit = limit.unwrap_or(Instant::FAR_FUTURE).min(clock.stop());
                if announced != Some(next) || !supervisor.go_ahead(limit) {
                    clock.skip_to(next, || {});
                }
            }
        }
        Attempt::Skipped
    }

    /// These threads do not sleep. One that is to compute on before anything else; `None`
    /// when all of them have spun for long.
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

    /// All sleep but some threads, which spin: lets a little time pass for them.
    pub(crate) fn step(&mut self, supervisor: &Supervisor, all: &Snapshot) -> Attempt {
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
                // The next step sooner.
                seen.passed(now, why);
                name_spinning(supervisor, thread, why);
            }
        }
        supervisor.with_order(|order| order.steps += 1);
        let clock = &supervisor.clock;
        let now = clock.now();
        let [awaited, announced] = clock.awaited_and_announced();
        let deadlines = all.waiting.iter().filter_map(|waiter| waiter.deadline);
        let due = awaited.into_iter().chain(clock.first_of(deadlines));
        let limit = due.min().map_or(now + STEP, |due| due.min(now + STEP));
        // Whose host's clock has rounded otherwise needs a little more.
        let limit = limit.max(now + Duration::from_ns(1));
        move_frozen(supervisor, limit, announced, uses_processor)
    }

    /// One of those who spin that may not have seen yet what this instant has brought.
    fn has_not_looked(&mut self, now: Instant<Virtual>, all: &Snapshot) -> Option<i32> {
        let rest = self
            .rest
            .take()
            .filter(|rest| rest.lasts(now, all.counts()));
        let mut rest = rest.unwrap_or_else(|| Rest::new(now, all.counts()));
        let least_ns = STEP.as_ns().unsigned_abs();
        let waited_for = all.at_work.iter().copied().filter(|&thread| {
            // Asked of each: its time counts from the first look.
            Counted::of(thread).is_some_and(|now| !rest.has_spent(thread, now, least_ns))
        });
        let waited_for = waited_for.last();
        self.rest = Some(rest);
        waited_for
    }

    /// Records the end of a turn in which `ran` threads ran.
    fn note(&mut self, supervisor: &Supervisor, ran: usize) {
        self.computing.clear();
        supervisor.with_order(|order| {
            order.turns += 1;
            order.shared += u64::from(ran > 1);
        });
    }
}

/// Returns the number of threads that have run since `counts`, and updates `counts` to those of
/// `all`.
fn ran_since(counts: &mut BTreeMap<i32, String>, all: &Snapshot) -> usize {
    let now: BTreeMap<i32, String> = all.counts().iter().cloned().collect();
    let has_run = |(thread, count): &(&i32, &String)| counts.get(*thread) != Some(*count);
    let ran = now.iter().filter(has_run).count();
    *counts = now;
    ran
}

/// Says of a program, once, that the clock is moved for it.
fn name_spinning(supervisor: &Supervisor, thread: i32, why: Spins) {
    let name = processes::name(processes::process_of(thread));
    if !supervisor.with_order(|order| order.spinning.insert(name.clone())) {
        return;
    }
    let (what, ns, doubt) = match why {
        Spins::Computes => ("computed", COMPUTING_NS, "does it spin on the clock?"),
        Spins::Polls => ("polled", POLLING_NS, "does it wait without sleeping?"),
    };
    let spent = Duration::from_ns(ns as i64);
    (supervisor.warn)(format!(
        "{name} has {what} for {spent} at one instant of the clock, which stands meanwhile ({doubt}); \
         time now passes for it in steps of {STEP}, and this session may not reproduce"
    ));
}

/// Moves the clock as far as `limit`, or to what was announced before, while a thread
/// computes, and processor time with it if the thread uses that.
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
        // They stand, whoever of ours has something for them already.
        kick::kick_waiting(pids, supervisor.wait_range());
    })
}

/// By how much the clock is moved then.
const STEP: Duration = Duration::from_ms(1);
