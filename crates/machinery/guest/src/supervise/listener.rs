//! Answers what the filter asks: execs, timerfds, and calls not handled yet.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use timeloom_calls::{IMAGE_CALL, ImageCall};

use crate::arch;
use crate::enter::inject::{ExecOutcome, Outfit};
use crate::filter;
use crate::linux::processes;
use crate::linux::remote::read_memory;
use crate::phc;
use crate::supervise::clock_calls;
use crate::supervise::notify::{Answer, Listener, Notification};
use crate::supervise::supervisor::Supervisor;
use crate::supervise::timer_calls;

/// Serves one listener until no process is left behind it. Runs in a thread.
pub(crate) fn serve(listener: &Arc<Listener>, supervisor: &Arc<Supervisor>) {
    while let Some(asker) = listener.receive() {
        match asker.call {
            libc::SYS_execve | libc::SYS_execveat => {
                // In a thread of its own: ptrace binds a tracee to the thread
                // that seized it, and an exec may take long to load.
                let (listener, supervisor) = (Arc::clone(listener), Arc::clone(supervisor));
                supervisor.execs.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    follow_exec(&listener, &supervisor, &asker);
                    supervisor.execs.fetch_sub(1, Ordering::SeqCst);
                });
            }
            call if timer_calls::is_one(call) => {
                let answer =
                    timer_calls::answer(listener, supervisor, &asker).unwrap_or_else(|| {
                        note(supervisor, &asker, "done in real time");
                        Answer::Continue
                    });
                listener.answer(&asker, answer);
            }
            IMAGE => {
                let answer = match ImageCall::decode(asker.args) {
                    Some(question) => answer_image(listener, supervisor, &asker, question),
                    None => Answer::Error(libc::EINVAL),
                };
                listener.answer(&asker, answer);
            }
            // ENOSYS is what a kernel without it says: programs fall back.
            libc::SYS_io_uring_setup if !supervisor.allow_leaks.load(Ordering::Relaxed) => {
                note(supervisor, &asker, "refused");
                listener.answer(&asker, Answer::Error(libc::ENOSYS));
            }
            libc::SYS_sigaltstack if signal_stack_is_too_small(&asker) => {
                note(
                    supervisor,
                    &asker,
                    "refused with ENOMEM, since under the clock it takes 12 KiB, or what sysconf(_SC_MINSIGSTKSZ) says",
                );
                listener.answer(&asker, Answer::Error(libc::ENOMEM));
            }
            libc::SYS_sigaltstack => listener.answer(&asker, Answer::Continue),
            call if clock_calls::is_one(call) => {
                let (answer, was_set) = clock_calls::answer(listener, supervisor, &asker);
                if was_set {
                    // Before the answer, so that timers have told of it by then.
                    for host in supervisor.clock.take_stepped() {
                        supervisor.clock_was_set(&host);
                    }
                }
                if supervisor.clock.take_sped_up() {
                    supervisor.kick_soon();
                }
                listener.answer(&asker, answer);
            }
            _ => {
                note(supervisor, &asker, "done in real time");
                listener.answer(&asker, Answer::Continue);
            }
        }
    }
}

/// Answers what the image asks.
fn answer_image(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    question: ImageCall<u64>,
) -> Answer {
    let shown_ns = |clock: u32, real_ns| {
        let dilation = supervisor.clock.dilation_on(listener.host().index());
        let cpu_time = &supervisor.cpu_time;
        Answer::Value(cpu_time.shown_ns(asker.thread, clock as i32, real_ns, dilation))
    };
    match question {
        ImageCall::CpuTime { clock, real_ns } => shown_ns(clock, real_ns),
        ImageCall::CpuTimeOfTimer { timer, real_ns } => {
            match processes::clock_of_timer(asker.thread, timer) {
                Some(clock) => shown_ns(clock as u32, real_ns),
                None => Answer::Error(libc::EINVAL),
            }
        }
        ImageCall::Give { gift } => listener.give_gift(asker, gift),
        ImageCall::SetTimer { .. } => timer_calls::set_timer(listener, supervisor, asker, question),
        ImageCall::IsTimer { descriptor } => timer_calls::is_timer(supervisor, asker, descriptor),
        ImageCall::PhcStamps { command, stamps } => {
            phc::answer_stamps(listener, &supervisor.clock, asker, command, stamps)
        }
        ImageCall::PhcTime { device_ns, wall_ns } => {
            phc::answer_time(&supervisor.clock, listener.host(), device_ns, wall_ns)
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

fn follow_exec(listener: &Listener, supervisor: &Supervisor, asker: &Notification) {
    // A launched program comes under the freezer here, when it is ready to run:
    // if the session is paused, it stands before its first instruction.
    let adopt = |pid: i32, outcome: &ExecOutcome| {
        if matches!(outcome, ExecOutcome::Failed) {
            return supervisor.freezer.keep_stopped(pid);
        }
        supervisor.timers.forget_posix(pid);
        let mut newcomers = supervisor
            .newcomers
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        match newcomers.iter().position(|&other| other == pid) {
            Some(index) => {
                newcomers.swap_remove(index);
                supervisor.freezer.adopt(pid, listener.host().index())
            }
            None => supervisor.freezer.keep_stopped(pid),
        }
    };
    let image = listener.image().unwrap_or(&supervisor.injector.image.file);
    let outfit = Outfit {
        page: listener.host().page().file.as_fd(),
        image: image.as_fd(),
        is_vdso: true,
    };
    match supervisor
        .injector
        .follow_exec(listener, asker, outfit, adopt)
    {
        Ok(ExecOutcome::Running) => warn_of_lost_privileges(supervisor, asker.thread),
        Ok(ExecOutcome::Failed | ExecOutcome::Gone) => {}
        Err(error) => (supervisor.warn)(error.to_string()),
    }
}

const IMAGE: i64 = IMAGE_CALL as i64;

/// Without root a session can only follow programs that gain no privileges by
/// being executed; the kernel then ignores the bits that would give them.
fn warn_of_lost_privileges(supervisor: &Supervisor, thread: i32) {
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
        (supervisor.warn)(format!(
            "`{}` is a setuid program; a session without root cannot give it its privileges, so it runs without them",
            program.display()
        ));
    }
}

/// Counts a call that is not virtualised, or refused, and says so the first time.
fn note(supervisor: &Supervisor, asker: &Notification, outcome: &'static str) {
    let program = processes::name(processes::process_of(asker.thread));
    let call = filter::name_of(asker.call);
    if supervisor.report.count(
        program.clone(),
        call,
        outcome,
        (asker.thread, asker.instruction),
    ) {
        let what = match asker.call {
            libc::SYS_sigaltstack => "onto which two signals do not fit",
            _ => "which is not virtualised yet",
        };
        (supervisor.warn)(format!("{program} uses {call}, {what}: {outcome}"));
    }
}
