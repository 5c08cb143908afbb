//! POSIX timers (`timer_create`).

use std::sync::Arc;

use super::words::Itimerspec;
use super::{Outcome, POSIX, SetTimer, is_alarm, may_use_alarms, settime};
use crate::linux::processes;
use crate::linux::remote::{Alleged, Plain};
use crate::supervise::asker::Asker;
use crate::supervise::supervisor::Supervisor;
use crate::timers::{FIRST_POSIX, Notice, Thread};

/// A call on a POSIX timer that there is.
pub(crate) enum PosixCall {
    /// `timer_settime`.
    Set(SetTimer),
    /// `timer_gettime`, and where to put it.
    Get(Alleged<Itimerspec>),
    /// `timer_getoverrun`.
    Overrun,
    /// `timer_delete`.
    Delete,
}

/// `struct sigevent`, as far as it says something.
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

/// `timer_create(clock, event, id)` on a clock that is a map of virtual time.
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
    // In the order in which the kernel looks (`good_sigevent`).
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
    // In this order, too.
    let told = asker.write(id_out, &id);
    let made = told.and_then(|()| may_wake_the_machine(asker, clock));
    if made.is_err() {
        timers.delete(owner.posix(id));
    }
    made.map(|()| 0)
}

/// Timers on the clocks of alarms wake a machine that sleeps, for which it has to have a
/// clock of its own.
fn may_wake_the_machine(asker: &Asker<'_>, clock: i32) -> Result<(), i32> {
    if is_alarm(clock) && !has_alarms(clock) {
        return Err(libc::EOPNOTSUPP);
    }
    may_use_alarms(asker, clock)
}

/// Whether the kernel has something to wake the machine by.
fn has_alarms(clock: i32) -> bool {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `now`.
    unsafe { libc::clock_gettime(clock, &raw mut now) == 0 }
}

/// The thread of the asker's process that it calls by this number.
fn thread_of(asker: &Asker<'_>, number: i32) -> Result<Arc<Thread>, i32> {
    let thread = processes::thread_as_it_counts(asker.process(), number);
    let held = Thread::hold(thread.ok_or(libc::EINVAL)?);
    // It is the asker's if the asker is still there, and it is still the same thread.
    let again = processes::thread_as_it_counts(asker.known_process()?, number);
    match held {
        Ok(held) if again == Some(held.number) => Ok(Arc::new(held)),
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(libc::EAGAIN),
        _ => Err(libc::EINVAL),
    }
}

/// The outcome of another call; `None` for a timer that is not ours.
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
    // Overruns have a reckoning of their own.
    if !matches!(call, PosixCall::Overrun) {
        timers.catch_up();
    }
    let owner = asker.known_owner(timers)?;
    let key = owner.map(|owner| owner.posix(id));
    let key = key.filter(|&key| timers.exists(key)).ok_or(libc::EINVAL);
    match call {
        // The one setting that may not be missing altogether.
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
/// To the kernel the same as a signal: threads are the C library's.
const SIGEV_THREAD: i32 = 2;
const SIGEV_THREAD_ID: i32 = 4;
