//! Calls for POSIX timers (`timer_create`).

use std::sync::Arc;

use super::words::Itimerspec;
use super::{Outcome, POSIX, SetTimer, is_alarm, may_use_alarms, settime};
use crate::linux::processes;
use crate::linux::remote::{Alleged, Plain};
use crate::supervise::asker::Asker;
use crate::supervise::supervisor::Supervisor;
use crate::timers::{FIRST_POSIX, Notice, Thread};

/// Call for an existing POSIX timer.
pub(crate) enum PosixCall {
    /// `timer_settime`, with its arguments.
    Set(SetTimer),
    /// `timer_gettime`, with the address to which the result is written.
    Get(Alleged<Itimerspec>),
    /// `timer_getoverrun`.
    Overrun,
    /// `timer_delete`.
    Delete,
}

/// `struct sigevent`, with those fields that are used here.
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

// SAFETY: the structure consists of numbers without padding.
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
    // The arguments are checked in the kernel's order (`good_sigevent`).
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
    // The identifier is written at the same point as in the kernel.
    let told = asker.write(id_out, &id);
    let made = told.and_then(|()| may_wake_the_machine(asker, clock));
    if made.is_err() {
        timers.delete(owner.posix(id));
    }
    made.map(|()| 0)
}

/// Checks whether the asker may have timers on the alarm clocks. These wake a sleeping machine, for
/// which they need a hardware clock.
fn may_wake_the_machine(asker: &Asker<'_>, clock: i32) -> Result<(), i32> {
    if is_alarm(clock) && !has_alarms(clock) {
        return Err(libc::EOPNOTSUPP);
    }
    may_use_alarms(asker, clock)
}

/// Returns true if the kernel supports timers on `clock`, one of the two clocks that wake a
/// sleeping machine.
fn has_alarms(clock: i32) -> bool {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `now`.
    unsafe { libc::clock_gettime(clock, &raw mut now) == 0 }
}

/// Returns the thread of the asker's process that has this number in the process's PID namespace.
fn thread_of(asker: &Asker<'_>, number: i32) -> Result<Arc<Thread>, i32> {
    let thread = processes::thread_as_it_counts(asker.process(), number);
    let held = Thread::hold(thread.ok_or(libc::EINVAL)?);
    // The opened thread belongs to the asker's process if the asker still exists and the number
    // still denotes this thread.
    let again = processes::thread_as_it_counts(asker.known_process()?, number);
    match held {
        Ok(held) if again == Some(held.number) => Ok(Arc::new(held)),
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(libc::EAGAIN),
        _ => Err(libc::EINVAL),
    }
}

/// Executes a call for an existing timer. Returns `None` for a timer that the session does not
/// keep.
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
    // A query of the overruns needs no catching up, since overruns are counted separately.
    if !matches!(call, PosixCall::Overrun) {
        timers.catch_up();
    }
    let owner = asker.known_owner(timers)?;
    let key = owner.map(|owner| owner.posix(id));
    let key = key.filter(|&key| timers.exists(key)).ok_or(libc::EINVAL);
    match call {
        // For this call the kernel requires a new setting.
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
/// SIGEV_THREAD: for the kernel the same as a signal, since the C library creates the threads.
const SIGEV_THREAD: i32 = 2;
const SIGEV_THREAD_ID: i32 = 4;
