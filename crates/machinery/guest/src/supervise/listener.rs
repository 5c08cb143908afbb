//! Answers what the filter asks: execs, timerfds, and calls not handled yet.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use timeloom_page::{IS_TIMER, PHC_STAMPS, PHC_TIME, SET_TIMER};

use crate::arch;
use crate::clock::{Clock, Host};
use crate::enter::inject::{ExecOutcome, Injector, Outfit};
use crate::error::GuestError;
use crate::filter;
use crate::freeze::Freezer;
use crate::linux::processes;
use crate::linux::remote::read_memory;
use crate::phc;
use crate::session::PATIENCE;
use crate::supervise::clock_calls;
use crate::supervise::cpu_time::CpuTime;
use crate::supervise::kick;
use crate::supervise::notify::{Answer, GIVE, Listener, Notification};
use crate::supervise::report::Report;
use crate::supervise::timer_calls;
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
    /// Held while clock and processes are being changed together.
    pub(crate) change: Mutex<()>,
    /// How many want to change something and wait for `change`.
    pub(crate) wanting: AtomicUsize,
}

impl Context {
    /// Keeps clock and processes from being changed by others meanwhile.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.wanting.fetch_add(1, Ordering::SeqCst);
        let guard = self.change.lock().unwrap_or_else(|e| e.into_inner());
        self.wanting.fetch_sub(1, Ordering::SeqCst);
        guard
    }

    /// Tells all who wait for a host's CLOCK_REALTIME that it was set: timers,
    /// and threads in a wait with a deadline on it.
    pub(crate) fn clock_was_set(self: &Arc<Self>, host: &Host) {
        self.timers.clock_was_set(host);
        self.kick_soon();
    }

    /// Makes every thread that waits in virtual time compute its timeout anew, when
    /// nobody is changing anything.
    pub(crate) fn kick_soon(self: &Arc<Self>) {
        // Counted from now on, so that time does not skip before it is done.
        self.wanting.fetch_add(1, Ordering::SeqCst);
        let context = Arc::clone(self);
        // In a thread of its own: all threads of the guests are to stand, and
        // one of them may be waiting for us to answer.
        std::thread::spawn(move || {
            let change = context.lock();
            context.wanting.fetch_sub(1, Ordering::SeqCst);
            if let Err(error) = context.kick_waiting() {
                (context.warn)(error.to_string());
            }
            drop(change);
        });
    }

    /// Makes every thread that waits in virtual time compute its timeout anew.
    /// With [`Self::lock`] held.
    pub(crate) fn kick_waiting(&self) -> Result<(), GuestError> {
        let stood = self.clock.is_paused();
        if !stood {
            self.freezer.freeze(PATIENCE)?;
        }
        kick::kick_waiting(&self.freezer.processes(), &self.injector.image.wait);
        if !stood {
            self.freezer.thaw()?;
        }
        Ok(())
    }

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
            CPU_TIME if asker.args[0] == GIVE => {
                let answer = listener.give_gift(&asker);
                listener.answer(&asker, answer);
            }
            CPU_TIME if matches!(asker.args[0] as usize, SET_TIMER | IS_TIMER) => {
                let answer = timer_calls::answer_image(listener, context, &asker);
                listener.answer(&asker, answer);
            }
            CPU_TIME if matches!(asker.args[0] as usize, PHC_STAMPS | PHC_TIME) => {
                let answer = phc::answer_image(listener, &context.clock, &asker);
                listener.answer(&asker, answer);
            }
            CPU_TIME => {
                let [clock, real_ns, timer, ..] = asker.args;
                let clock = match timer {
                    0 => Some(clock as i32),
                    number => processes::clock_of_timer(asker.thread, number as i32 - 1),
                };
                let Some(clock) = clock else {
                    listener.answer(&asker, Answer::Error(libc::EINVAL));
                    continue;
                };
                let shown_ns = context.cpu_time.shown_ns(
                    asker.thread,
                    clock,
                    real_ns as i64,
                    context.clock.dilation_on(listener.host().index()),
                );
                listener.answer(&asker, Answer::Value(shown_ns));
            }
            // ENOSYS is what a kernel without it says: programs fall back.
            libc::SYS_io_uring_setup if !context.allow_leaks.load(Ordering::Relaxed) => {
                note(context, &asker, "refused");
                listener.answer(&asker, Answer::Error(libc::ENOSYS));
            }
            libc::SYS_sigaltstack if signal_stack_is_too_small(&asker) => {
                note(
                    context,
                    &asker,
                    "refused with ENOMEM, since under the clock it takes 12 KiB, or what sysconf(_SC_MINSIGSTKSZ) says",
                );
                listener.answer(&asker, Answer::Error(libc::ENOMEM));
            }
            libc::SYS_sigaltstack => listener.answer(&asker, Answer::Continue),
            call if clock_calls::is_one(call) => {
                let (answer, was_set) = clock_calls::answer(listener, context, &asker);
                if was_set {
                    // Before the answer, so that timers have told of it by then.
                    for host in context.clock.take_stepped() {
                        context.clock_was_set(&host);
                    }
                }
                if context.clock.take_sped_up() {
                    context.kick_soon();
                }
                listener.answer(&asker, answer);
            }
            _ => {
                note(context, &asker, "done in real time");
                listener.answer(&asker, Answer::Continue);
            }
        }
    }
}

/// Whether a call of `sigaltstack` names a stack onto which two signals do not fit,
/// where the kernel would not notice and write below it.
fn signal_stack_is_too_small(asker: &Notification) -> bool {
    let mut stack = [0u8; size_of::<libc::stack_t>()];
    if !read_memory(asker.thread, asker.args[0], &mut stack) {
        return false; // the kernel says so
    }
    // SAFETY: any bytes are one.
    let stack: libc::stack_t = unsafe { std::mem::transmute(stack) };
    stack.ss_flags & libc::SS_DISABLE == 0 && (stack.ss_size as u64) < arch::LEAST_SIGNAL_STACK
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
                context.freezer.adopt(pid, listener.host().index())
            }
            None => context.freezer.keep_stopped(pid),
        }
    };
    let image = listener.image().unwrap_or(&context.injector.image.file);
    let outfit = Outfit {
        page: listener.host().page().file.as_fd(),
        image: image.as_fd(),
        is_vdso: true,
    };
    match context.injector.follow_exec(listener, asker, outfit, adopt) {
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

/// Counts a call that is not virtualised, or refused, and says so the first time.
fn note(context: &Context, asker: &Notification, outcome: &'static str) {
    let program = processes::name(processes::process_of(asker.thread));
    let call = filter::name_of(asker.call);
    if context.report.count(
        program.clone(),
        call,
        outcome,
        (asker.thread, asker.instruction),
    ) {
        let what = match asker.call {
            libc::SYS_sigaltstack => "onto which two signals do not fit",
            _ => "which is not virtualised yet",
        };
        (context.warn)(format!("{program} uses {call}, {what}: {outcome}"));
    }
}
