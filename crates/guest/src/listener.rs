//! Answers what the filter asks: execs, timerfds, and calls not handled yet.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::Clock;
use crate::cpu_time::CpuTime;
use crate::filter;
use crate::freeze::Freezer;
use crate::inject::{ExecOutcome, Injector};
use crate::notify::{Answer, Listener, Notification};
use crate::processes;
use crate::remote::{read_memory, write_memory};
use crate::report::Report;
use crate::timer_calls;
use crate::timers::Timers;

/// Everything that an answer may need.
pub(crate) struct Context {
    pub(crate) injector: Injector,
    pub(crate) clock: Arc<Clock>,
    pub(crate) timers: Timers,
    pub(crate) report: Report,
    pub(crate) freezer: Freezer,
    /// Processes that were launched and are not under the freezer yet.
    pub(crate) newcomers: Mutex<Vec<i32>>,
    /// Execs that are being followed.
    pub(crate) execs: AtomicUsize,
    /// Processor time of guests, once the rate has changed.
    pub(crate) cpu_time: CpuTime,
    /// Whether what cannot be virtualised is done natively instead of refused.
    pub(crate) allow_leaks: AtomicBool,
    /// Called with messages for the user.
    pub(crate) warn: Box<dyn Fn(String) + Send + Sync>,
}

impl Context {
    /// Whether a program is on its way into the session.
    pub(crate) fn is_starting_one(&self) -> bool {
        self.execs.load(Ordering::SeqCst) > 0
            || !self
                .newcomers
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .is_empty()
    }
}

/// Serves one listener until no process is left behind it. Runs in a thread.
pub(crate) fn serve(listener: &Arc<Listener>, context: &Arc<Context>) {
    while let Some(asker) = listener.receive() {
        match asker.call {
            libc::SYS_execve | libc::SYS_execveat => {
                // In a thread of its own: ptrace binds a tracee to the thread
                // that seized it, and an exec may take long to load.
                let (listener, context) = (Arc::clone(listener), Arc::clone(context));
                context.execs.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    follow_exec(&listener, &context, &asker);
                    context.execs.fetch_sub(1, Ordering::SeqCst);
                });
            }
            call if timer_calls::is_one(call) => {
                let answer = timer_calls::answer(listener, context, &asker).unwrap_or_else(|| {
                    note(context, &asker, "done in real time");
                    Answer::Continue
                });
                listener.answer(&asker, answer);
            }
            CPU_TIME => {
                let [clock, real_ns, ..] = asker.args;
                let shown_ns = context.cpu_time.shown_ns(
                    asker.thread,
                    clock as i32,
                    real_ns as i64,
                    context.clock.dilation(),
                );
                listener.answer(&asker, Answer::Value(shown_ns));
            }
            // ENOSYS is what a kernel without it says: programs fall back.
            libc::SYS_io_uring_setup if !context.allow_leaks.load(Ordering::Relaxed) => {
                note(context, &asker, "refused");
                listener.answer(&asker, Answer::Error(libc::ENOSYS));
            }
            libc::SYS_clock_settime | libc::SYS_settimeofday => {
                note(context, &asker, "refused");
                listener.answer(&asker, Answer::Error(libc::EPERM));
            }
            libc::SYS_adjtimex => {
                listener.answer(
                    &asker,
                    adjust(context, &asker, libc::CLOCK_REALTIME, asker.args[0]),
                );
            }
            libc::SYS_clock_adjtime => {
                listener.answer(
                    &asker,
                    adjust(context, &asker, asker.args[0] as i32, asker.args[1]),
                );
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
    let adopt = |pid: i32, outcome: &ExecOutcome| {
        if matches!(outcome, ExecOutcome::Failed) {
            return context.freezer.keep_stopped(pid);
        }
        context.timers.forget_posix(pid);
        let mut newcomers = context.newcomers.lock().unwrap_or_else(|e| e.into_inner());
        match newcomers.iter().position(|&other| other == pid) {
            Some(index) => {
                newcomers.swap_remove(index);
                context.freezer.adopt(pid)
            }
            None => context.freezer.keep_stopped(pid),
        }
    };
    match context.injector.follow_exec(listener, asker, adopt) {
        Ok(ExecOutcome::Running) => warn_of_lost_privileges(context, asker.thread),
        Ok(ExecOutcome::Failed | ExecOutcome::Gone) => {}
        Err(error) => (context.warn)(error.to_string()),
    }
}

const CPU_TIME: i64 = timeloom_page::CPU_TIME_CALL as i64;

/// Without root a session can only follow programs that gain no privileges by
/// being executed; the kernel then ignores the bits that would give them.
fn warn_of_lost_privileges(context: &Context, thread: i32) {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        return;
    }
    let path = format!("/proc/{thread}/exe");
    let gains = std::fs::metadata(&path)
        .is_ok_and(|file| file.mode() & (libc::S_ISUID | libc::S_ISGID) != 0);
    if gains {
        let program = std::fs::read_link(&path).unwrap_or_default();
        (context.warn)(format!(
            "`{}` is a setuid program; a session without root cannot give it its privileges, so it runs without them",
            program.display()
        ));
    }
}

/// Counts a call that is not virtualised and says so the first time.
fn note(context: &Context, asker: &Notification, outcome: &'static str) {
    let program = processes::name(processes::process_of(asker.thread));
    let call = filter::name_of(asker.call);
    if context.report.count(
        program.clone(),
        call,
        outcome,
        (asker.thread, asker.instruction),
    ) {
        (context.warn)(format!(
            "{program} uses {call}, which is not virtualised yet: {outcome}"
        ));
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
        return Answer::Error(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EINVAL),
        );
    }
    // SAFETY: a plain structure as bytes.
    let bytes =
        unsafe { std::slice::from_raw_parts((&raw const state).cast::<u8>(), size_of_val(&state)) };
    if write_memory(thread, address, bytes) {
        Answer::Value(result.into())
    } else {
        Answer::Error(libc::EFAULT)
    }
}
