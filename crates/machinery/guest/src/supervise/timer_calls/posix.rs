//! POSIX timers (`timer_create`).

use std::sync::Arc;

use super::words::Itimerspec;
use super::{Outcome, POSIX, SetTimer, is_alarm, may_use_alarms, settime};
use crate::linux::processes;
use crate::linux::remote::{Alleged, Plain};
use crate::supervise::asker::Asker;
use crate::supervise::supervisor::Supervisor;
use crate::timers::{FIRST_POSIX, Notice, Thread};

/// Call on an existing POSIX timer.
pub(crate) enum PosixCall {
    /// `timer_settime`.
    Set(SetTimer),
    /// `timer_gettime`, with the address of the result.
    Get(Alleged<Itimerspec>),
    /// `timer_getoverrun`.
    Overrun,
    /// `timer_delete`.
    Delete,
}

/// `struct sigevent`, without its unused parts.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Sigevent {
    value: u64,
    signal: i32,
    how: i32,
    thread: i32,
    rest: i32,
}

const _: () = assert!(size_of::<Sigevent>() == 24);

// SAFETY: numbers without gaps.
unsafe impl Plain for Sigevent {}

/// Executes `timer_create(clock, event, id)` on a clock that is a map of virtual time.
pub(super) fn create(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    clock: i32,
    event: Alleged<Sigevent>,
    id_out: Alleged<i32>,
) -> Outcome {
    let event = if event.is_null() {
        None
    } else {
        Some(asker.read(event)?)
    };
    let (signal, how, thread) = event.map_or((libc::SIGALRM, SIGEV_SIGNAL, 0), |it| {
        (it.signal, it.how, it.thread)
    });
    let timers = &supervisor.timers;
    let owner = asker.owner(timers)?;
    // Checked in the kernel's order (`good_sigevent`).
    let thread = match how {
        SIGEV_SIGNAL | SIGEV_THREAD | SIGEV_NONE => None,
        SIGEV_THREAD_ID => Some(thread_of(asker, thread)?),
        _ => return Err(libc::EINVAL),
    };
    if how != SIGEV_NONE && !(1..=64).contains(&signal) {
        return Err(libc::EINVAL);
    }
    let notice = |id: i32| {
        let value = event.map_or(id as u64, |it| it.value);
        (how != SIGEV_NONE).then_some(Notice {
            owner: Arc::clone(&owner),
            thread,
            signal,
            value,
            timer: id,
        })
    };
    let id = timers.create_posix(&owner, asker.host(), clock, notice);
    // Also in the kernel's order.
    let told = asker.write(id_out, &id);
    let made = told.and_then(|()| may_wake_the_machine(asker, clock));
    if made.is_err() {
        timers.delete(owner.posix(id));
    }
    made.map(|()| 0)
}

/// Checks that the asker may have timers on the clocks of alarms, which wake a sleeping machine and
/// need a hardware clock for that.
fn may_wake_the_machine(asker: &Asker<'_>, clock: i32) -> Result<(), i32> {
    if is_alarm(clock) && !has_alarms(clock) {
        return Err(libc::EOPNOTSUPP);
    }
    may_use_alarms(asker, clock)
}

/// Returns true if the kernel has a clock that can wake the machine.
fn has_alarms(clock: i32) -> bool {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `now`.
    unsafe { libc::clock_gettime(clock, &raw mut now) == 0 }
}

/// Returns the thread of the asker's process with this number in its PID namespace.
fn thread_of(asker: &Asker<'_>, number: i32) -> Result<Arc<Thread>, i32> {
    let thread = processes::thread_as_it_counts(asker.process(), number);
    let held = Thread::hold(thread.ok_or(libc::EINVAL)?);
    // The thread is the asker's if the asker still exists, and the number still means this thread.
    let again = processes::thread_as_it_counts(asker.known_process()?, number);
    match held {
        Ok(held) if again == Some(held.number) => Ok(Arc::new(held)),
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(libc::EAGAIN),
        _ => Err(libc::EINVAL),
    }
}

/// Returns the outcome of another call; `None` for a timer that is not ours.
pub(super) fn answer(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    id: i32,
    call: PosixCall,
) -> Option<Outcome> {
    if id < FIRST_POSIX {
        return None;
    }
    Some(of_own(supervisor, asker, id, call))
}

fn of_own(supervisor: &Supervisor, asker: &Asker<'_>, id: i32, call: PosixCall) -> Outcome {
    let timers = &supervisor.timers;
    // Overruns are counted separately.
    if !matches!(call, PosixCall::Overrun) {
        timers.catch_up();
    }
    let owner = asker.known_owner(timers)?;
    let key = owner.map(|owner| owner.posix(id));
    let key = key.filter(|&key| timers.exists(key)).ok_or(libc::EINVAL);
    match call {
        // The one setting that is required.
        PosixCall::Set(set) if set.new.is_null() => Err(libc::EINVAL),
        PosixCall::Set(set) => settime(supervisor, asker, key, set, &POSIX),
        PosixCall::Get(current) => asker.write(current, &timers.get(key?).into()).map(|()| 0),
        PosixCall::Overrun => Ok(timers.overrun(key?).into()),
        PosixCall::Delete => {
            timers.delete(key?);
            Ok(0)
        }
    }
}

const SIGEV_SIGNAL: i32 = 0;
const SIGEV_NONE: i32 = 1;
/// Same as a signal for the kernel: the C library makes the threads.
const SIGEV_THREAD: i32 = 2;
const SIGEV_THREAD_ID: i32 = 4;
