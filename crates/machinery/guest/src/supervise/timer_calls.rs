//! The calls that make, set and read timers, on behalf of guests.

use std::os::fd::AsFd;

use timeloom_calls::ImageCall;

use crate::arch::ALARM;
use crate::linux::processes;
use crate::linux::remote::{read_memory, write_memory};
use crate::supervise::notify::{Answer, Listener, Notification};
use crate::supervise::supervisor::Supervisor;
use crate::timers::{Cancelled, FIRST_POSIX, Key, Notice, SetFlags, Setting};

/// Whether [`answer`] knows the call.
pub(crate) fn is_one(call: i64) -> bool {
    matches!(
        call,
        libc::SYS_timerfd_create
            | libc::SYS_timerfd_settime
            | libc::SYS_timerfd_gettime
            | libc::SYS_timer_create
            | libc::SYS_timer_settime
            | libc::SYS_timer_gettime
            | libc::SYS_timer_getoverrun
            | libc::SYS_timer_delete
            | libc::SYS_setitimer
            | libc::SYS_getitimer
    ) || Some(call) == ALARM
}

/// The answer; `None` for a timer that is not ours (made outside the session).
pub(crate) fn answer(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
) -> Option<Answer> {
    match asker.call {
        libc::SYS_timerfd_create => Some(timerfd_create(listener, supervisor, asker)),
        libc::SYS_timerfd_settime => {
            let key = supervisor
                .timers
                .find_descriptor(asker.thread, asker.args[0] as i32)?;
            Some(settime(listener, supervisor, asker, key, &TIMERFD))
        }
        libc::SYS_timerfd_gettime => {
            let key = supervisor
                .timers
                .find_descriptor(asker.thread, asker.args[0] as i32)?;
            Some(store(asker, asker.args[1], supervisor.timers.get(key), 1))
        }
        libc::SYS_timer_create => timer_create(listener, supervisor, asker),
        libc::SYS_setitimer => Some(setitimer(listener, supervisor, asker)),
        libc::SYS_getitimer => {
            let key = Key::Interval {
                pid: processes::process_of(asker.thread),
            };
            Some(store(
                asker,
                asker.args[1],
                supervisor.timers.get(key),
                1000,
            ))
        }
        call if Some(call) == ALARM => Some(alarm(listener, supervisor, asker)),
        _ => posix(listener, supervisor, asker),
    }
}

fn timerfd_create(listener: &Listener, supervisor: &Supervisor, asker: &Notification) -> Answer {
    let [clock, flags, ..] = asker.args;
    let flags = flags as i32;
    if !is_known_clock(clock as i32) || flags & !(libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) != 0 {
        return Answer::Error(libc::EINVAL);
    }
    let Ok(file) = supervisor.timers.create_descriptor(
        listener.host(),
        clock as i32,
        flags & libc::TFD_NONBLOCK != 0,
    ) else {
        return Answer::Error(libc::EMFILE);
    };
    match listener.give(asker, file.as_fd(), flags & libc::TFD_CLOEXEC != 0) {
        Ok(number) => Answer::Value(number.into()),
        Err(error) => Answer::Error(error.raw_os_error().unwrap_or(libc::EMFILE)),
    }
}

/// `timer_create(clock, sigevent, identifier)`.
fn timer_create(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
) -> Option<Answer> {
    let [clock, event, out, ..] = asker.args;
    if !is_known_clock(clock as i32) && clock as i32 != libc::CLOCK_TAI {
        // One that the kernel has no timers on.
        return Some(Answer::Continue);
    }
    let pid = processes::process_of(asker.thread);
    let mut bytes = [0u8; 20];
    if event != 0 && !read_memory(asker.thread, event, &mut bytes) {
        return Some(Answer::Error(libc::EFAULT));
    }
    let int = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let value = u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"));
    let (signal, how, thread) = if event == 0 {
        (libc::SIGALRM, SIGEV_SIGNAL, 0)
    } else {
        (int(8), int(12), int(16))
    };
    let thread = match how {
        SIGEV_SIGNAL | SIGEV_NONE => None,
        SIGEV_THREAD_ID if processes::threads(pid).contains(&thread) => Some(thread),
        _ => return Some(Answer::Error(libc::EINVAL)),
    };
    if how != SIGEV_NONE && !(1..=64).contains(&signal) {
        return Some(Answer::Error(libc::EINVAL));
    }
    let id = supervisor
        .timers
        .create_posix(pid, listener.host(), clock as i32, |id| {
            let value = if event == 0 { id as u64 } else { value };
            (how != SIGEV_NONE).then_some(Notice {
                pid,
                thread,
                signal,
                value,
                timer: id,
            })
        });
    if !write_memory(asker.thread, out, &id.to_ne_bytes()) {
        supervisor.timers.delete(Key::Posix { pid, id });
        return Some(Answer::Error(libc::EFAULT));
    }
    Some(Answer::Value(0))
}

/// The other calls on a POSIX timer.
fn posix(listener: &Listener, supervisor: &Supervisor, asker: &Notification) -> Option<Answer> {
    let id = asker.args[0] as i32;
    if id < FIRST_POSIX {
        return None;
    }
    let key = Key::Posix {
        pid: processes::process_of(asker.thread),
        id,
    };
    if !supervisor.timers.exists(key) {
        return Some(Answer::Error(libc::EINVAL));
    }
    Some(match asker.call {
        libc::SYS_timer_settime => settime(listener, supervisor, asker, key, &POSIX),
        libc::SYS_timer_gettime => store(asker, asker.args[1], supervisor.timers.get(key), 1),
        libc::SYS_timer_getoverrun => Answer::Value(supervisor.timers.overrun(key).into()),
        libc::SYS_timer_delete => {
            supervisor.timers.delete(key);
            Answer::Value(0)
        }
        _ => return None,
    })
}

/// Answers [`ImageCall::IsTimer`].
pub(crate) fn is_timer(supervisor: &Supervisor, asker: &Notification, descriptor: i32) -> Answer {
    match supervisor.timers.find_descriptor(asker.thread, descriptor) {
        Some(key) => {
            supervisor.timers.was_told(key);
            Answer::Value(0)
        }
        // Not ours: then it is the kernel's business.
        None => Answer::Error(libc::ENOSYS),
    }
}

/// Answers [`ImageCall::SetTimer`].
pub(crate) fn set_timer(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    question: ImageCall<u64>,
) -> Answer {
    let ImageCall::SetTimer {
        descriptor,
        flags,
        new,
        old,
        is_told,
    } = question
    else {
        return Answer::Error(libc::EINVAL);
    };
    let Some(key) = supervisor.timers.find_descriptor(asker.thread, descriptor) else {
        return Answer::Error(libc::ENOSYS);
    };
    let mut asker = *asker;
    asker.args = [descriptor as u64, flags as u64, new, old, 0, 0];
    let kind = if is_told { &TOLD } else { &TIMERFD };
    settime(listener, supervisor, &asker, key, kind)
}

/// What the two kinds of `…_settime` make of their flags.
struct Kind {
    known_flags: i32,
    absolute: i32,
    reads_are_ours: bool,
}

const POSIX: Kind = Kind {
    known_flags: libc::TIMER_ABSTIME,
    absolute: libc::TIMER_ABSTIME,
    reads_are_ours: false,
};
const TIMERFD: Kind = Kind {
    known_flags: libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET,
    absolute: libc::TFD_TIMER_ABSTIME,
    reads_are_ours: false,
};
const TOLD: Kind = Kind {
    reads_are_ours: true,
    ..TIMERFD
};

/// `timer_settime` and `timerfd_settime`: (timer, flags, new, old).
fn settime(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    key: Key,
    kind: &Kind,
) -> Answer {
    let [_, flags, new, old, ..] = asker.args;
    if flags as i32 & !kind.known_flags != 0 {
        return Answer::Error(libc::EINVAL);
    }
    let wanted = match read_setting(asker.thread, new, 1) {
        Ok(wanted) => wanted,
        Err(errno) => return Answer::Error(errno),
    };
    let before = supervisor.timers.get(key);
    if !listener.is_waiting(asker) {
        return Answer::Error(libc::EINTR);
    }
    let flags = SetFlags {
        absolute: flags as i32 & kind.absolute != 0,
        // The bit means nothing to a POSIX timer, which refuses it.
        cancel_on_set: flags as i32 & libc::TFD_TIMER_CANCEL_ON_SET & kind.known_flags != 0,
        reads_are_ours: kind.reads_are_ours,
    };
    // As in the kernel the timer is set, whatever the call returns.
    match supervisor.timers.set(key, wanted, flags) {
        Err(Cancelled) => Answer::Error(libc::ECANCELED),
        Ok(()) if old == 0 => Answer::Value(0),
        Ok(()) => store(asker, old, before, 1),
    }
}

/// `setitimer(ITIMER_REAL, new, old)`.
fn setitimer(listener: &Listener, supervisor: &Supervisor, asker: &Notification) -> Answer {
    let [_, new, old, ..] = asker.args;
    let pid = processes::process_of(asker.thread);
    // A null pointer disarms, a curiosity that the kernel keeps.
    let wanted = match if new == 0 {
        Ok(Setting::default())
    } else {
        read_setting(asker.thread, new, 1000)
    } {
        Ok(wanted) => wanted,
        Err(errno) => return Answer::Error(errno),
    };
    let before = supervisor.timers.get(Key::Interval { pid });
    if old != 0 && !write_memory(asker.thread, old, &setting_bytes(before, 1000)) {
        return Answer::Error(libc::EFAULT);
    }
    supervisor.timers.set_interval(listener.host(), pid, wanted);
    Answer::Value(0)
}

/// `alarm(seconds)`: returns the seconds that were left, rounded to the nearest
/// but never to zero while armed.
fn alarm(listener: &Listener, supervisor: &Supervisor, asker: &Notification) -> Answer {
    let pid = processes::process_of(asker.thread);
    let left_ns = supervisor.timers.get(Key::Interval { pid }).value_ns;
    let seconds = i64::from(asker.args[0] as u32);
    supervisor.timers.set_interval(
        listener.host(),
        pid,
        Setting {
            interval_ns: 0,
            value_ns: seconds * NS_PER_S,
        },
    );
    let left_s = (left_ns + NS_PER_S / 2) / NS_PER_S;
    Answer::Value(if left_ns > 0 { left_s.max(1) } else { 0 })
}

fn store(asker: &Notification, address: u64, setting: Setting, unit_ns: i64) -> Answer {
    if write_memory(asker.thread, address, &setting_bytes(setting, unit_ns)) {
        Answer::Value(0)
    } else {
        Answer::Error(libc::EFAULT)
    }
}

/// An `itimerspec` (unit 1 ns) or `itimerval` (unit 1000 ns) of the asker; or
/// the error number.
fn read_setting(thread: i32, address: u64, unit_ns: i64) -> Result<Setting, i32> {
    let mut bytes = [0u8; 32];
    if !read_memory(thread, address, &mut bytes) {
        return Err(libc::EFAULT);
    }
    let word =
        |index: usize| i64::from_ne_bytes(bytes[8 * index..][..8].try_into().expect("eight bytes"));
    let ns = |s: i64, part: i64| {
        let valid = s >= 0 && (0..NS_PER_S / unit_ns).contains(&part);
        valid
            .then(|| s.saturating_mul(NS_PER_S).saturating_add(part * unit_ns))
            .ok_or(libc::EINVAL)
    };
    Ok(Setting {
        interval_ns: ns(word(0), word(1))?,
        value_ns: ns(word(2), word(3))?,
    })
}

/// Rounded up to the unit, so that "armed" never reads as zero.
fn setting_bytes(setting: Setting, unit_ns: i64) -> [u8; 32] {
    let split = |ns: i64| {
        let units = ns / unit_ns + i64::from(ns % unit_ns > 0);
        let per_s = NS_PER_S / unit_ns;
        [units / per_s, units % per_s]
    };
    let mut bytes = [0u8; 32];
    for (index, word) in split(setting.interval_ns)
        .into_iter()
        .chain(split(setting.value_ns))
        .enumerate()
    {
        bytes[8 * index..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Clocks that are maps of virtual time and that timers may be made on.
fn is_known_clock(clock: i32) -> bool {
    matches!(
        clock,
        libc::CLOCK_REALTIME
            | libc::CLOCK_MONOTONIC
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_REALTIME_ALARM
            | libc::CLOCK_BOOTTIME_ALARM
    )
}

const NS_PER_S: i64 = 1_000_000_000;
const SIGEV_SIGNAL: i32 = 0;
const SIGEV_NONE: i32 = 1;
const SIGEV_THREAD_ID: i32 = 4;
