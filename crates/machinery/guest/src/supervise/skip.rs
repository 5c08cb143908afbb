//! Skipping: while all threads wait, time moves to the next event.
//!
//! Rest is detected by scheduler events ([`Activity`]) if BPF is available, and otherwise by
//! reading /proc many times a second, as follows.
//!
//! Nothing is about to happen if every thread of every guest sleeps and every thread of this
//! supervisor, if the kernel has deferred no network work, and if all other sources (packets in
//! flight, programs starting or ended, output not read yet) are quiet too; and if no thread has run
//! a moment later: then there was an instant at which all slept at once. Threads that sleep in the
//! image's waiting instruction show their virtual deadline at the top of their stack. The earliest
//! deadline, theirs or one of the supervisor's own, is then the next instant.
//!
//! If computing takes no time, the clock moves in no other way, and [`Turns`] chooses the thread
//! that continues.
//!
//! The threads of a held host do not count: nothing happens to them before the host is resumed.
//!
//! A thread asleep in any other call waits for another thread: for data, a lock, a child. It has no
//! deadline, and can only be woken by a thread that is observed here.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_sys::schedule::sleep_exactly;
use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::Compute;
use crate::freeze::FreezeKind;
use crate::linux::processes;
use crate::supervise::activity::Activity;
use crate::supervise::kick;
use crate::supervise::own_threads::OwnThreads;
use crate::supervise::snapshot::{Awake, Snapshot, Waiter};
use crate::supervise::supervisor::Supervisor;
use crate::supervise::turns::Turns;

/// Skips until `ended`. To be run in a thread.
pub(crate) fn serve(shared: &Weak<Supervisor>, ended: &AtomicBool) {
    sleep_exactly();
    let mut own = OwnThreads::new();
    let mut naps = 0u32;
    let mut busy: Option<(i32, StdInstant)> = None;
    let mut turns = Turns::default();
    let mut activity = shared.upgrade().and_then(|it| by_events_if_possible(&it));
    while !ended.load(Ordering::SeqCst) {
        let Some(supervisor) = shared.upgrade() else {
            return;
        };
        let attempt = match &mut activity {
            Some(activity) => by_events(&supervisor, activity, &mut own, &mut turns),
            None => skip_once(&supervisor, &mut own, &mut turns),
        };
        // At increasing intervals while a thread computes, so as not to disturb it.
        naps = if attempt == Attempt::Skipped {
            0
        } else {
            (naps + 1).min(8)
        };
        busy = match (attempt, busy) {
            _ if supervisor.clock.compute() == Compute::None => None,
            (Attempt::Busy(thread), Some((same, since))) if thread == same => {
                if since.elapsed() > LONG_BUSY {
                    (supervisor.warn)(format!(
                        "time does not skip: thread {thread} of {} has been running for {} s (does it spin on the clock?)",
                        processes::name(processes::process_of(thread)),
                        LONG_BUSY.as_secs()
                    ));
                    None
                } else {
                    busy
                }
            }
            (Attempt::Busy(thread), _) => Some((thread, StdInstant::now())),
            _ => None,
        };
        drop(supervisor);
        if attempt == Attempt::Skipped && activity.is_some() {
            continue;
        }
        std::thread::sleep(StdDuration::from_micros(u64::from(20 + 40 * naps)));
    }
}

/// Returns the source of scheduler events, unless it is unavailable or disabled.
fn by_events_if_possible(supervisor: &Supervisor) -> Option<Activity> {
    let is_unwanted = std::env::var_os(BPF).is_some_and(|value| value == "off");
    // With virtual dates of files, each skip waits for a kernel tick anyway.
    if is_unwanted || supervisor.clock.dates_files() {
        return None;
    }
    Activity::new(supervisor).ok()
}

/// Variable of the supervisor's environment. The value `off` disables the BPF programs that detect
/// rest.
const BPF: &str = "TIMELOOM_BPF";

/// Outcome of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    Skipped,
    /// This thread of a guest is running.
    Busy(i32),
    /// Something else is about to happen, or there is no next event.
    NotNow,
}

/// Skips, like [`skip_once`], and reads /proc only if something has run for long.
fn by_events(
    supervisor: &Supervisor,
    activity: &mut Activity,
    own: &mut OwnThreads,
    turns: &mut Turns,
) -> Attempt {
    let Some(word) = activity.wait_for_rest(LONG_WORK) else {
        let attempt = skip_once(supervisor, own, turns);
        if attempt == Attempt::Skipped {
            activity.forget_cancelled();
        }
        return attempt;
    };
    let Some(_change) = supervisor.try_change() else {
        return Attempt::NotNow;
    };
    if supervisor.clock.is_paused()
        || !supervisor.is_quiet()
        || !activity.update(supervisor, own)
        || !activity.is_still(word)
    {
        return Attempt::NotNow;
    }
    if supervisor.clock.compute() == Compute::None {
        let first = activity.waiting.first(&supervisor.clock);
        return turns.next(supervisor, first, || activity.take_ran());
    }
    jump(supervisor, &activity.waiting.all(&supervisor.clock))
}

fn skip_once(supervisor: &Supervisor, own: &mut OwnThreads, turns: &mut Turns) -> Attempt {
    let Some(_change) = supervisor.try_change() else {
        return Attempt::NotNow;
    };
    if supervisor.clock.is_paused() {
        return Attempt::NotNow;
    }
    let in_turns = supervisor.clock.compute() == Compute::None;
    let look = || match in_turns {
        true => Ok(Snapshot::with_those_at_work(supervisor)),
        false => Snapshot::of(supervisor),
    };
    let first = match look() {
        Ok(snapshot) => snapshot,
        Err(Awake(thread)) => return Attempt::Busy(thread),
    };
    if let Some(thread) = turns.computing(&first.at_work) {
        return Attempt::Busy(thread);
    }
    // There is one instant between the two snapshots at which all sleep.
    let is_quiet = |own: &OwnThreads| own.softirq_sleeps() && supervisor.is_quiet();
    if !is_quiet(own) || !own.slept() || first.stirring_child().is_some() {
        return Attempt::NotNow;
    }
    let in_tick = supervisor.clock.dates_files()
        && first.at_work.is_empty()
        && (in_turns || is_long(supervisor, next_instant(supervisor, &first.waiting)));
    if in_tick {
        supervisor.clock.await_tick();
    }
    let attempt = match look() {
        // Threads of this process may have run meanwhile.
        Ok(second) if first == second && is_quiet(own) && (!in_tick || own.slept()) => {
            skip(supervisor, turns, &second)
        }
        _ => Attempt::NotNow,
    };
    if in_tick {
        supervisor.clock.forget_tick();
    }
    attempt
}

/// Returns the instant of the next event.
fn next_instant(supervisor: &Supervisor, waiting: &[Waiter]) -> Option<Instant<Virtual>> {
    let ours = supervisor.clock.next_awaited();
    let deadlines = waiting.iter().filter_map(|waiter| waiter.deadline);
    let theirs = supervisor.clock.first_of(deadlines);
    ours.into_iter().chain(theirs).min()
}

/// Returns true if the skip is long enough to show in dates of files.
fn is_long(supervisor: &Supervisor, next: Option<Instant<Virtual>>) -> bool {
    next.is_some_and(|next| next - supervisor.clock.now() >= LEAST_DATED)
}

/// Skips, after nothing is about to happen.
fn skip(supervisor: &Supervisor, turns: &mut Turns, second: &Snapshot) -> Attempt {
    let in_turns = supervisor.clock.compute() == Compute::None;
    if in_turns && second.at_work.is_empty() {
        return turns.next_of(supervisor, second);
    }
    if in_turns {
        return turns.step(supervisor, second);
    }
    jump(supervisor, &second.waiting)
}

/// Moves the clock to the next event while all threads sleep and `waiting` is current.
fn jump(supervisor: &Supervisor, waiting: &[Waiter]) -> Attempt {
    let Some(next) = next_instant(supervisor, waiting) else {
        return Attempt::NotNow;
    };
    let gain = next - supervisor.clock.now();
    if gain < LEAST_GAIN {
        return Attempt::NotNow;
    }
    let due = |waiter: &Waiter| {
        supervisor.clock.first_of(waiter.deadline) <= Some(next) && waiter.deadline.is_some()
    };
    // A kick must find its thread asleep: a thread that is just making a call that traps would lose
    // the call, since a signal that is pending already keeps the filter's from being queued, and
    // the program would read the call's number as its result. So all threads are kicked before any
    // thread continues that may wake one of them: first the threads whose deadline has not come,
    // which only sleep again; and afterwards the supervisor's threads that deliver packets. Of two
    // threads whose deadline has come the first may wake the second, so then all are stopped while
    // they are kicked. They are also stopped if the next is about to wake by itself, which would be
    // during its kick.
    let (now, not_yet): (Vec<_>, Vec<_>) = waiting.iter().partition(|waiter| due(waiter));
    let is_soon = gain.as_s_f64() * supervisor.clock.dilation() < SOON_S;
    if (now.len() > 1 || is_soon) && supervisor.freezer.kind() == FreezeKind::Cgroup {
        return skip_frozen(supervisor, next);
    }
    supervisor.clock.skip_to(next, || {
        not_yet.into_iter().chain(now).for_each(Waiter::kick);
    });
    Attempt::Skipped
}

fn skip_frozen(supervisor: &Supervisor, next: Instant<Virtual>) -> Attempt {
    stopped(supervisor, |pids| {
        supervisor.clock.skip_to(next, || {
            kick::kick_waiting(pids, supervisor.wait_range());
        });
    })
}

/// Applies `change` to the clock while all guests are stopped.
pub(super) fn stopped(supervisor: &Supervisor, change: impl FnOnce(&[i32])) -> Attempt {
    match supervisor.with_guests_stopped(change) {
        Ok(()) => Attempt::Skipped,
        Err(error) => {
            (supervisor.warn)(format!("time does not skip: {error}"));
            Attempt::NotNow
        }
    }
}

/// Running time after which /proc is searched for threads that compute without end, or poll.
const LONG_WORK: StdDuration = StdDuration::from_millis(3);

/// Gain below which waiting is as quick as skipping.
const LEAST_GAIN: Duration = Duration::from_us(100);

/// Shortest skip that can show in dates of files: a tick of most kernels, or less.
const LEAST_DATED: Duration = Duration::from_ms(4);

/// Wall time longer than it takes to kick all threads, even if this thread is kept from its
/// processor for a moment.
const SOON_S: f64 = 0.005;

/// Time after which the user is informed why nothing is skipped.
const LONG_BUSY: StdDuration = StdDuration::from_secs(5);
