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
//! A thread that spins until the clock moves would wait for ever. After much computing
//! at one instant the clock is moved by small steps, and the program named.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use timeloom_page::Shown;
use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::HostInstant;
use crate::linux::processes;
use crate::supervise::skip::{Attempt, skip_frozen};
use crate::supervise::snapshot::{Snapshot, Waiter};
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
    /// Processor time of threads that compute when they were first seen at it.
    computing: BTreeMap<i32, u64>,
}

impl Turns {
    /// Everybody sleeps: lets the next go on.
    pub(crate) fn next(&mut self, supervisor: &Supervisor, all: &Snapshot) -> Attempt {
        let clock = &supervisor.clock;
        let now = clock.now();
        let own = clock.next_awaited();
        if own.is_some_and(|own| own <= now) {
            // One of ours has something to do yet at this instant.
            return Attempt::NotNow;
        }
        let mut theirs: Vec<(Instant<Virtual>, HostInstant<Shown>, &Waiter)> = all
            .waiting
            .iter()
            .filter_map(|waiter| {
                let deadline = waiter.deadline?;
                Some((clock.first_of([deadline])?, deadline, waiter))
            })
            .collect();
        theirs
            .sort_by_key(|(at, deadline, waiter)| (*at, deadline.host, waiter.pid, waiter.thread));
        let first = theirs.first();
        match first {
            Some(&(at, deadline, waiter)) if at <= now => {
                let woken = Some((waiter.thread, deadline));
                if self.woken == woken {
                    // The clock of its host has rounded otherwise.
                    self.longer = (self.longer + self.longer).max(Duration::from_ns(1));
                    clock.skip_to(now + self.longer, || {});
                } else {
                    self.longer = Duration::ZERO;
                }
                self.woken = woken;
                self.note(supervisor, all);
                waiter.kick();
            }
            _ => {
                let at = first.map(|(at, ..)| *at);
                let Some(next) = own.into_iter().chain(at).min() else {
                    return Attempt::NotNow;
                };
                self.note(supervisor, all);
                clock.skip_to(next, || {});
            }
        }
        Attempt::Skipped
    }

    /// This thread does not sleep: lets it compute, and in the end lets time pass for it.
    pub(crate) fn go_on_computing(&mut self, supervisor: &Supervisor, thread: i32) -> Attempt {
        let Some(spent_ns) = processor_time_ns(thread) else {
            return Attempt::NotNow;
        };
        let since_ns = *self.computing.entry(thread).or_insert(spent_ns);
        if spent_ns < since_ns.saturating_add(AT_ONE_INSTANT_NS) {
            return Attempt::Busy(thread);
        }
        // The next step sooner.
        let step_ns = STEP.as_ns().unsigned_abs();
        self.computing
            .insert(thread, spent_ns - AT_ONE_INSTANT_NS + step_ns);
        let name = processes::name(processes::process_of(thread));
        let is_new = supervisor.with_order(|order| {
            order.steps += 1;
            order.spinning.insert(name.clone())
        });
        if is_new {
            (supervisor.warn)(format!(
                "{name} has computed for {} s at one instant of the clock, which stands meanwhile (does it spin on the \
                 clock?); time now passes for it in steps of {STEP}, and this session does not reproduce",
                AT_ONE_INSTANT_NS / 1_000_000_000
            ));
        }
        let step = supervisor.clock.now() + STEP;
        let own = supervisor.clock.next_awaited();
        skip_frozen(supervisor, own.map_or(step, |own| own.min(step)))
    }

    /// Somebody has had a turn, and all sleep again.
    fn note(&mut self, supervisor: &Supervisor, all: &Snapshot) {
        self.computing.clear();
        let counts: BTreeMap<i32, String> = all.guests().iter().cloned().collect();
        let has_run = |(thread, count): &(&i32, &String)| {
            self.counts
                .get(*thread)
                .is_none_or(|before| before != *count)
        };
        let ran = counts.iter().filter(has_run).count();
        self.counts = counts;
        supervisor.with_order(|order| {
            order.turns += 1;
            order.shared += u64::from(ran > 1);
        });
    }
}

/// For how long a thread has run, which the scheduler counts first.
fn processor_time_ns(thread: i32) -> Option<u64> {
    let counts = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    counts.split_ascii_whitespace().next()?.parse().ok()
}

/// More processor time than this at one instant is taken for spinning on the clock.
const AT_ONE_INSTANT_NS: u64 = 5_000_000_000;

/// By how much the clock is moved then.
const STEP: Duration = Duration::from_ms(1);
