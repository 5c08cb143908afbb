//! Answers what the filter asks: execs, timerfds, and calls not handled yet.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use crate::clock::Clock;
use crate::filter;
use crate::freeze::Freezer;
use crate::inject::{ExecOutcome, Injector};
use crate::notify::{Answer, Listener, Notification};
use crate::processes;
use crate::report::Report;
use crate::timers::{Setting, Timers};

/// Everything that an answer may need.
pub(crate) struct Context {
    pub(crate) injector: Injector,
    pub(crate) clock: Arc<Clock>,
    pub(crate) timers: Timers,
    pub(crate) report: Report,
    pub(crate) freezer: Freezer,
    /// Processes that were launched and are not under the freezer yet.
    pub(crate) newcomers: Mutex<Vec<i32>>,
    /// Called with messages for the user.
    pub(crate) warn: Box<dyn Fn(String) + Send + Sync>,
}

/// Serves one listener until no process is left behind it. Runs in a thread.
pub(crate) fn serve(listener: &Arc<Listener>, context: &Arc<Context>) {
    while let Some(asker) = listener.receive() {
        match asker.call {
            libc::SYS_execve | libc::SYS_execveat => {
                // In a thread of its own: ptrace binds a tracee to the thread
                // that seized it, and an exec may take long to load.
                let (listener, context) = (Arc::clone(listener), Arc::clone(context));
                std::thread::spawn(move || follow_exec(&listener, &context, &asker));
            }
            libc::SYS_timerfd_create => {
                if let Some(answer) = timerfd_create(listener, context, &asker) {
                    listener.answer(&asker, answer);
                }
            }
            libc::SYS_timerfd_settime => listener.answer(&asker, timerfd_settime(listener, context, &asker)),
            libc::SYS_timerfd_gettime => listener.answer(&asker, timerfd_gettime(context, &asker)),
            libc::SYS_clock_settime | libc::SYS_settimeofday => {
                note(context, &asker, "refused");
                listener.answer(&asker, Answer::Error(libc::EPERM));
            }
            libc::SYS_adjtimex => {
                listener.answer(&asker, adjust(context, &asker, libc::CLOCK_REALTIME, asker.args[0]));
            }
            libc::SYS_clock_adjtime => {
                listener.answer(&asker, adjust(context, &asker, asker.args[0] as i32, asker.args[1]));
            }
            _ => {
                note(context, &asker, "done in real time");
                listener.answer(&asker, Answer::Continue);
            }
        }
    }
}

fn follow_exec(listener: &Listener, context: &Context, asker: &Notification) {
    // A launched program comes under the freezer here, when it is ready to run:
    // if the session is paused, it stands before its first instruction.
    let adopt = |pid: i32| {
        let mut newcomers = context.newcomers.lock().unwrap_or_else(|e| e.into_inner());
        match newcomers.iter().position(|&other| other == pid) {
            Some(index) => {
                newcomers.swap_remove(index);
                context.freezer.adopt(pid)
            }
            None => Ok(()),
        }
    };
    match context.injector.follow_exec(listener, asker, adopt) {
        Ok(ExecOutcome::Running | ExecOutcome::Failed | ExecOutcome::Gone) => {}
        Err(error) => (context.warn)(error.to_string()),
    }
}

/// Counts a call that is not virtualised and says so the first time.
fn note(context: &Context, asker: &Notification, outcome: &'static str) {
    let program = processes::name_of_thread(asker.thread);
    let call = filter::name_of(asker.call);
    if context.report.count(program.clone(), call, outcome) {
        (context.warn)(format!("{program} uses {call}, which is not virtualised yet: {outcome}"));
    }
}

/// Reading the state of the machine's clock discipline does no harm; changing
/// it from inside a session would change the machine's clock. The call is never
/// continued: root in the guest could change `modes` after our look at it.
fn adjust(context: &Context, asker: &Notification, clock: libc::clockid_t, timex: u64) -> Answer {
    let mut modes = [0u8; 4];
    if !read_memory(asker.thread, timex, &mut modes) {
        return Answer::Error(libc::EFAULT);
    }
    if u32::from_ne_bytes(modes) != 0 {
        note(context, asker, "refused");
        return Answer::Error(libc::EPERM);
    }
    note(context, asker, "answered by the machine's clock");
    if clock < 0 {
        // A clock by descriptor, and the descriptor is not ours.
        return Answer::Error(libc::EOPNOTSUPP);
    }
    machine_timex(asker.thread, clock, timex)
}

/// Asks on the guest's behalf, with a structure of our own.
fn machine_timex(thread: i32, clock: libc::clockid_t, address: u64) -> Answer {
    // SAFETY: plain data; zero modes read only.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: writes `state`.
    let result = unsafe { libc::clock_adjtime(clock, &raw mut state) };
    if result < 0 {
        return Answer::Error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
    }
    // SAFETY: a plain structure as bytes.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const state).cast::<u8>(), size_of_val(&state)) };
    if write_memory(thread, address, bytes) { Answer::Value(result.into()) } else { Answer::Error(libc::EFAULT) }
}

fn timerfd_create(listener: &Listener, context: &Context, asker: &Notification) -> Option<Answer> {
    let [clock, flags, ..] = asker.args;
    let flags = flags as i32;
    let known = matches!(
        clock as i32,
        libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_BOOTTIME_ALARM
    );
    if !known || flags & !(libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) != 0 {
        return Some(Answer::Error(libc::EINVAL));
    }
    let offset_ns = context.clock.offset_ns(clock as i32);
    let file = match context.timers.create(offset_ns, flags & libc::TFD_NONBLOCK != 0) {
        Ok(file) => file,
        Err(_) => return Some(Answer::Error(libc::EMFILE)),
    };
    match listener.give(asker, file.as_fd(), flags & libc::TFD_CLOEXEC != 0) {
        Ok(number) => Some(Answer::Value(number.into())),
        Err(error) => Some(Answer::Error(error.raw_os_error().unwrap_or(libc::EMFILE))),
    }
}

fn timerfd_settime(listener: &Listener, context: &Context, asker: &Notification) -> Answer {
    let [fd, flags, new, old, ..] = asker.args;
    let Some(id) = context.timers.find(asker.thread, fd as i32) else {
        // Made outside the session and inherited, or no timer at all.
        note(context, asker, "done in real time");
        return Answer::Continue;
    };
    if flags as i32 & !(libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Answer::Error(libc::EINVAL);
    }
    let Some(wanted) = read_setting(asker.thread, new) else {
        return Answer::Error(libc::EFAULT);
    };
    let Some(wanted) = wanted else {
        return Answer::Error(libc::EINVAL);
    };
    let before = context.timers.get(id);
    if old != 0 && !write_memory(asker.thread, old, &setting_bytes(before)) {
        return Answer::Error(libc::EFAULT);
    }
    if !listener.is_waiting(asker) {
        return Answer::Error(libc::EINTR);
    }
    context.timers.set(id, wanted, flags as i32 & libc::TFD_TIMER_ABSTIME != 0);
    Answer::Value(0)
}

fn timerfd_gettime(context: &Context, asker: &Notification) -> Answer {
    let [fd, out, ..] = asker.args;
    match context.timers.find(asker.thread, fd as i32) {
        Some(id) if write_memory(asker.thread, out, &setting_bytes(context.timers.get(id))) => Answer::Value(0),
        Some(_) => Answer::Error(libc::EFAULT),
        None => {
            note(context, asker, "done in real time");
            Answer::Continue
        }
    }
}

/// An `itimerspec` of the asker: `None` unreadable, `Some(None)` invalid.
fn read_setting(thread: i32, address: u64) -> Option<Option<Setting>> {
    let mut bytes = [0u8; 32];
    if !read_memory(thread, address, &mut bytes) {
        return None;
    }
    let word = |index: usize| i64::from_ne_bytes(bytes[8 * index..][..8].try_into().expect("eight bytes"));
    let ns = |s: i64, ns: i64| {
        (s >= 0 && (0..1_000_000_000).contains(&ns)).then(|| s.saturating_mul(1_000_000_000).saturating_add(ns))
    };
    Some(match (ns(word(0), word(1)), ns(word(2), word(3))) {
        (Some(interval_ns), Some(value_ns)) => Some(Setting { interval_ns, value_ns }),
        _ => None,
    })
}

fn setting_bytes(setting: Setting) -> [u8; 32] {
    let split = |ns: i64| [ns / 1_000_000_000, ns % 1_000_000_000];
    let mut bytes = [0u8; 32];
    for (index, word) in split(setting.interval_ns).into_iter().chain(split(setting.value_ns)).enumerate() {
        bytes[8 * index..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn read_memory(thread: i32, address: u64, into: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` describes `into`; the kernel checks the other side.
    let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    read == into.len() as isize
}

fn write_memory(thread: i32, address: u64, from: &[u8]) -> bool {
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: from.len() };
    // SAFETY: `local` describes `from`; the kernel checks the other side.
    let written = unsafe { libc::process_vm_writev(thread, &raw const local, 1, &raw const remote, 1, 0) };
    written == from.len() as isize
}
