//! Skipping: while all threads wait, the clock advances to the next event at once.
//!
//! If BPF is available, scheduler events show that all threads wait ([`Activity`]), and that the
//! kernel holds no frame of the session back. Otherwise /proc is read many times a second, as
//! follows. With BPF it is read only if all running threads have been spinning for long, or if no
//! rest has been reported for a fifth of a second.
//!
//! Nothing is about to happen under these conditions: every thread of every guest sleeps, and every
//! thread of this supervisor; the kernel has deferred no network work; all other sources (packets
//! in flight, programs starting or ended, output not read yet) are quiet too; and a moment later no
//! thread has run. Then there was an instant at which all threads slept at once. A thread that
//! sleeps in the image's waiting instruction has its virtual deadline at the top of its stack. The
//! next event is the earliest of these deadlines and of the supervisor's own.
//!
//! If computing takes no time, the clock advances in no other way, and [`Scheduler`] chooses the
//! thread that continues.
//!
//! The threads of a held host are ignored: nothing happens to them before the host is resumed.
//!
//! A thread asleep in any other call waits for another thread: for data, a lock, a child. It has no
//! deadline, and only a thread that is observed here can wake it.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_sys::schedule::sleep_exactly;
use timeloom_time::{Duration, Instant, Virtual};
use tracing::trace;

use crate::clock::Compute;
use crate::freeze::FreezeKind;
use crate::linux::processes;
use crate::supervise::activity::Activity;
use crate::supervise::interrupt;
use crate::supervise::own_threads::OwnThreads;
use crate::supervise::scheduler::Scheduler;
use crate::supervise::shared_order::{Acting, pass_idle_time};
use crate::supervise::snapshot::{NoSnapshot, Snapshot, Waiter};
use crate::supervise::supervisor::Supervisor;

/// Skips time until `ended` is true. To be run in its own thread.
pub(crate) fn serve(shared: &Weak<Supervisor>, ended: &AtomicBool) {
    sleep_exactly();
    let mut own = OwnThreads::new();
    let mut naps = 0u32;
    let mut waits = 0u32;
    let mut busy: Option<(i32, StdInstant)> = None;
    let mut scheduler = Scheduler::default();
    let mut activity = shared.upgrade().and_then(|it| by_events_if_possible(&it));
    while !ended.load(Ordering::SeqCst) {
        let Some(supervisor) = shared.upgrade() else {
            return;
        };
        if let Some(order) = supervisor.shared_order.get()
            && !order.await_turn(OF_OTHERS)
        {
            supervisor.note_busy(None);
            waits += 1;
            let by_clock = waits.is_multiple_of(ASK_AFTER);
            match activity.as_mut().map_or(by_clock, Activity::has_run) {
                true => order.ask_for_turn(),
                false => pass_idle_time(&supervisor, &**order),
            }
            continue;
        }
        waits = 0;
        let attempt = match &mut activity {
            Some(activity) => by_events(&supervisor, activity, &mut own, &mut scheduler),
            None => skip_once(&supervisor, &mut own, &mut scheduler, || false),
        };
        match attempt {
            Attempt::Skipped => trace!(virtual_ns = supervisor.clock.now().as_ns(), "skipped"),
            Attempt::Busy(thread) => trace!(thread, "not skipped: a thread runs"),
            Attempt::HandedOver => trace!("handed the turn over"),
            Attempt::NotNow => {}
        }
        supervisor.note_busy(match attempt {
            Attempt::Busy(thread) => Some(thread),
            Attempt::Skipped | Attempt::HandedOver | Attempt::NotNow => None,
        });
        if attempt == Attempt::Skipped {
            supervisor.is_deferred.store(false, Ordering::Relaxed);
        }
        // The intervals between attempts increase while a thread computes, so as not to disturb it.
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
                        "time does not skip: thread {thread} of {} has been running for {} s \
                         (does it poll the clock in a loop?)",
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
        // The detector by events blocks while anything runs.
        let blocks = |activity: &Activity| attempt != Attempt::NotNow || !activity.rests();
        if activity.as_ref().is_some_and(blocks) {
            continue;
        }
        std::thread::sleep(StdDuration::from_micros(u64::from(20 + 40 * naps)));
    }
}

/// Returns the detector by scheduler events; `None` if it is unavailable or disabled.
fn by_events_if_possible(supervisor: &Supervisor) -> Option<Activity> {
    // A detector that is loaded later does not know the frames that are held back already.
    let is_first = !supervisor.has_skipped.swap(true, Ordering::Relaxed);
    supervisor
        .detects_held_frames
        .store(false, Ordering::Relaxed);
    let is_unwanted = std::env::var_os(BPF).is_some_and(|value| value == "off");
    // If dates of files are virtual, each skip waits for a kernel tick, so the detector would save
    // nothing.
    if is_unwanted || supervisor.clock.dates_files() {
        return None;
    }
    let activity = Activity::new(supervisor).ok()?;
    supervisor
        .detects_held_frames
        .store(is_first, Ordering::Relaxed);
    Some(activity)
}

/// Name of an environment variable of the supervisor. Its value `off` disables the BPF programs
/// that detect rest.
const BPF: &str = "TIMELOOM_BPF";

/// Outcome of an attempt to skip.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    Skipped,
    /// This guest thread is running.
    Busy(i32),
    /// The next event of another session comes first.
    HandedOver,
    /// Another event is about to happen, or there is no next event.
    NotNow,
}

/// Attempts to skip, like [`skip_once`], but reads /proc only if something has been running for
/// long.
fn by_events(
    supervisor: &Supervisor,
    activity: &mut Activity,
    own: &mut OwnThreads,
    scheduler: &mut Scheduler,
) -> Attempt {
    let Some(word) = activity.wait_for_rest() else {
        activity.forget_cancelled();
        supervisor
            .is_deferred
            .store(activity.is_deferred(), Ordering::Relaxed);
        if let Some(attempt) = look_at_running(supervisor, activity, scheduler) {
            activity.be_patient();
            return attempt;
        }
        let attempt = skip_once(supervisor, own, scheduler, || activity.is_deferred());
        activity.searched(attempt == Attempt::Skipped);
        return attempt;
    };
    // A stop of all sessions is set while they are paused, so the right to act comes second.
    let (Some(_change), Some(acting)) = (supervisor.try_change(), Acting::of(supervisor)) else {
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
        return scheduler.next(supervisor, &acting, first, || activity.take_ran());
    }
    // All deadlines are current, so the threads that have run need not be looked at again.
    activity.take_ran();
    jump(supervisor, &activity.waiting.all(&supervisor.clock))
}

/// Looks at the threads that run according to the scheduler's events. Returns the reason for which
/// time cannot skip, or `None` if all threads must be searched.
fn look_at_running(
    supervisor: &Supervisor,
    activity: &Activity,
    scheduler: &mut Scheduler,
) -> Option<Attempt> {
    if activity.must_search() {
        return None;
    }
    let threads = activity.running_guests();
    if threads.is_empty() {
        // A thread of the supervisor, or of the kernel, is at work.
        return Some(Attempt::NotNow);
    }
    let computing = match supervisor.clock.compute() {
        Compute::None => scheduler.computing(&threads),
        Compute::Real => threads.first().copied(),
    };
    computing.map(Attempt::Busy)
}

/// Attempts to skip. `is_deferred` must return true if it is known that the kernel has deferred work
/// that may concern the session: /proc does not show all of it.
fn skip_once(
    supervisor: &Supervisor,
    own: &mut OwnThreads,
    scheduler: &mut Scheduler,
    is_deferred: impl Fn() -> bool,
) -> Attempt {
    // The turn must have begun before the threads are looked at.
    let (Some(_change), Some(_)) = (supervisor.try_change(), Acting::of(supervisor)) else {
        return Attempt::NotNow;
    };
    if supervisor.clock.is_paused() {
        return Attempt::NotNow;
    }
    let in_turns = supervisor.clock.compute() == Compute::None;
    let look = || match in_turns {
        true => Snapshot::with_those_at_work(supervisor),
        false => Snapshot::of(supervisor),
    };
    let first = match look() {
        Ok(snapshot) => snapshot,
        Err(NoSnapshot::Awake(thread)) => return Attempt::Busy(thread),
        Err(NoSnapshot::Unreadable) => return Attempt::NotNow,
    };
    if let Some(thread) = scheduler.computing(&first.at_work) {
        return Attempt::Busy(thread);
    }
    // If both snapshots are equal, there is an instant between them at which all threads sleep.
    let is_quiet =
        |own: &OwnThreads| own.softirq_sleeps() && !is_deferred() && supervisor.is_quiet();
    if !is_quiet(own) || !own.slept() || first.stirring_child().is_some() {
        return Attempt::NotNow;
    }
    let in_tick = supervisor.clock.dates_files()
        && first.at_work.is_empty()
        && (in_turns || is_long(supervisor, next_instant(supervisor, &first.waiting)));
    if in_tick {
        supervisor.clock.await_tick();
    }
    // What threads of this process have sent to other sessions limits the turn. They sleep now.
    let acting = Acting::of(supervisor);
    let attempt = match look() {
        // Threads of this process may have run between the two snapshots.
        Ok(second) if first == second && is_quiet(own) && (!in_tick || own.slept()) => {
            match &acting {
                Some(acting) => skip(supervisor, acting, scheduler, &second),
                None => Attempt::NotNow,
            }
        }
        _ => Attempt::NotNow,
    };
    if in_tick {
        supervisor.clock.forget_tick();
    }
    attempt
}

/// Returns the virtual time of the next event; `None` if there is none.
fn next_instant(supervisor: &Supervisor, waiting: &[Waiter]) -> Option<Instant<Virtual>> {
    let ours = supervisor.clock.next_awaited();
    let deadlines = waiting.iter().filter_map(|waiter| waiter.deadline);
    let theirs = supervisor.clock.first_of(deadlines);
    ours.into_iter().chain(theirs).min()
}

/// Returns true if the skip is long enough to be visible in dates of files.
fn is_long(supervisor: &Supervisor, next: Option<Instant<Virtual>>) -> bool {
    next.is_some_and(|next| next - supervisor.clock.now() >= LEAST_DATED)
}

/// Skips. The caller has found that nothing is about to happen.
fn skip(
    supervisor: &Supervisor,
    acting: &Acting,
    scheduler: &mut Scheduler,
    second: &Snapshot,
) -> Attempt {
    let in_turns = supervisor.clock.compute() == Compute::None;
    if in_turns && second.at_work.is_empty() {
        return scheduler.next_of(supervisor, acting, second);
    }
    if in_turns {
        return scheduler.step(supervisor, acting, second);
    }
    jump(supervisor, &second.waiting)
}

/// Advances the clock to the next event. All threads must sleep, and `waiting` must be current.
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
    // A thread must be asleep when an interrupt reaches it. If it were just making a call that
    // traps, it would lose that call: a signal that is pending already prevents the kernel from
    // queueing the filter's, and the program would read the call's number as its result. So all
    // threads are interrupted before any thread continues that may wake one of them. First come the
    // threads whose deadline has not come, which only sleep again; after them the supervisor's
    // threads, which deliver packets. If two threads have a deadline that has come, the first may
    // wake the second, so all are stopped while they are interrupted. They are also stopped if the
    // next thread is about to wake by itself, which would happen during its interrupt.
    let (now, not_yet): (Vec<_>, Vec<_>) = waiting.iter().partition(|waiter| due(waiter));
    let is_soon = gain.as_s_f64() * supervisor.clock.dilation() < SOON_S;
    if (now.len() > 1 || is_soon) && supervisor.freezer.kind() == FreezeKind::Cgroup {
        return skip_frozen(supervisor, next);
    }
    supervisor.clock.skip_to(next, || {
        not_yet.into_iter().chain(now).for_each(Waiter::interrupt);
    });
    Attempt::Skipped
}

fn skip_frozen(supervisor: &Supervisor, next: Instant<Virtual>) -> Attempt {
    stopped(supervisor, |pids| {
        supervisor.clock.skip_to(next, || {
            interrupt::interrupt_waiting(pids, supervisor.wait_range());
        });
    })
}

/// Applies `change` to the clock while the processes of all guests are stopped.
pub(super) fn stopped(supervisor: &Supervisor, change: impl FnOnce(&[i32])) -> Attempt {
    match supervisor.with_guests_stopped(change) {
        Ok(()) => Attempt::Skipped,
        Err(error) => {
            (supervisor.warn)(format!("time does not skip: {error}"));
            Attempt::NotNow
        }
    }
}

/// Minimum gain of a skip; for less, waiting takes no longer than skipping.
const LEAST_GAIN: Duration = Duration::from_us(100);

/// Shortest skip that can be visible in dates of files: a tick of most kernels, or less.
const LEAST_DATED: Duration = Duration::from_ms(4);

/// Wall seconds within which the interrupts of all threads are done, even if this thread is
/// preempted for a moment.
const SOON_S: f64 = 0.005;

/// Wall time for which a session that shares the order of its events waits for its turn, before it
/// looks whether it has ended.
const OF_OTHERS: StdDuration = StdDuration::from_millis(20);

/// Number of waits of [`OF_OTHERS`] after which a session asks for a turn if it has no record of its
/// threads' running.
const ASK_AFTER: u32 = 25;

/// Wall time without a skip after which the user is informed of the reason.
const LONG_BUSY: StdDuration = StdDuration::from_secs(5);
