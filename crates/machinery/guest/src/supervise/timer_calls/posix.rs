//! POSIX timers (`timer_create`).

use super::words::Itimerspec;
use super::{Outcome, POSIX, SetTimer, settime};
use crate::linux::processes;
use crate::linux::remote::{Alleged, Plain};
use crate::supervise::asker::Asker;
use crate::supervise::supervisor::Supervisor;
use crate::timers::{FIRST_POSIX, Key, Notice};

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
    let pid = asker.process();
    let event = if event.is_null() {
        None
    } else {
        Some(asker.read(event)?)
    };
    let (signal, how, thread) = event.map_or((libc::SIGALRM, SIGEV_SIGNAL, 0), |it| {
        (it.signal, it.how, it.thread)
    });
    let thread = match how {
        SIGEV_SIGNAL | SIGEV_NONE => None,
        SIGEV_THREAD_ID if processes::threads(pid).contains(&thread) => Some(thread),
        _ => return Err(libc::EINVAL),
    };
    if how != SIGEV_NONE && !(1..=64).contains(&signal) {
        return Err(libc::EINVAL);
    }
    let notice = |id: i32| {
        let value = event.map_or(id as u64, |it| it.value);
        (how != SIGEV_NONE).then_some(Notice {
            pid,
            thread,
            signal,
            value,
            timer: id,
        })
    };
    let timers = &supervisor.timers;
    let id = timers.create_posix(pid, asker.host(), clock, notice);
    let told = asker.write(id_out, &id);
    if told.is_err() {
        timers.delete(Key::Posix { pid, id });
    }
    told.map(|()| 0)
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
    let pid = asker.process();
    let key = Key::Posix { pid, id };
    let timers = &supervisor.timers;
    if !timers.exists(key) {
        return Some(Err(libc::EINVAL));
    }
    Some(match call {
        PosixCall::Set(set) => settime(supervisor, asker, key, set, &POSIX),
        PosixCall::Get(current) => asker.write(current, &timers.get(key).into()).map(|()| 0),
        PosixCall::Overrun => Ok(timers.overrun(key).into()),
        PosixCall::Delete => {
            timers.delete(key);
            Ok(0)
        }
    })
}

const SIGEV_SIGNAL: i32 = 0;
const SIGEV_NONE: i32 = 1;
const SIGEV_THREAD_ID: i32 = 4;
