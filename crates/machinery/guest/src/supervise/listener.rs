//! Answers what the filter asks: execs, timers, clocks, and what the image asks.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use timeloom_calls::{ImageCall, TCP_CONGESTION};

use crate::arch;
use crate::enter::inject::{ExecOutcome, Outfit};
use crate::filter;
use crate::linux::processes;
use crate::linux::remote::Alleged;
use crate::phc;
use crate::supervise::asker::Asker;
use crate::supervise::clock_calls;
use crate::supervise::notify::{Answer, Listener, Notification};
use crate::supervise::question::{Question, SignalStack};
use crate::supervise::real_time::Verdict;
use crate::supervise::supervisor::Supervisor;
use crate::supervise::timer_calls::{self, SetTimer};

/// Serves one listener until no process is left behind it. Runs in a thread.
pub(crate) fn serve(listener: &Arc<Listener>, supervisor: &Arc<Supervisor>) {
    while let Some(notification) = listener.receive() {
        let asker = Asker {
            listener,
            notification: &notification,
        };
        let name = filter::name_of(notification.call);
        let answer = match Question::in_call(&notification) {
            Question::Exec => {
                // In a thread of its own: ptrace binds a tracee to the thread
                // that seized it, and an exec may take long to load.
                let (listener, supervisor) = (Arc::clone(listener), Arc::clone(supervisor));
                let host = listener.host().index();
                supervisor.exec_begun(host);
                let its = Arc::clone(&supervisor);
                let follow = move || {
                    follow_exec(&listener, &its, &notification);
                    its.exec_ended(host);
                };
                match std::thread::Builder::new().spawn(follow) {
                    Ok(_) => continue,
                    // What programs know from a fork that fails.
                    Err(_) => {
                        supervisor.exec_ended(host);
                        Answer::Error(libc::EAGAIN)
                    }
                }
            }
            Question::Timer(call) => timer_calls::answer(supervisor, &asker, call)
                .unwrap_or_else(|| done_in_real_time(supervisor, &notification)),
            Question::Clock(call) => {
                let (answer, was_set) = clock_calls::answer(supervisor, &asker, call);
                if was_set {
                    // Before the answer, so that timers have told of it by then.
                    supervisor.tell_of_steps();
                }
                if supervisor.clock.take_sped_up() {
                    supervisor.kick_soon();
                }
                answer
            }
            Question::Image(Some(question)) => answer_image(supervisor, &asker, question),
            Question::Image(None) => Answer::Error(libc::EINVAL),
            // ENOSYS is what a kernel without it says: programs fall back.
            Question::IoUring if !supervisor.allow_leaks.load(Ordering::Relaxed) => {
                note(supervisor, &notification, name, "refused");
                Answer::Error(libc::ENOSYS)
            }
            Question::RealTime(call) => match call.verdict(&asker, supervisor.clock.compute()) {
                Some(verdict) => {
                    let Verdict { name, outcome, .. } = verdict;
                    note(supervisor, &notification, name, outcome);
                    verdict.answer
                }
                None => Answer::Continue,
            },
            Question::TimeNamespace(by)
                if !by.is_none_or(|by| processes::leads_to_other_time(asker.thread(), by)) =>
            {
                Answer::Continue
            }
            Question::TimeNamespace(_) if !supervisor.allow_leaks.load(Ordering::Relaxed) => {
                let outcome = "refused with EINVAL, as by a kernel without time namespaces";
                note(supervisor, &notification, name, outcome);
                Answer::Error(libc::EINVAL)
            }
            Question::SignalStack(stack) if is_too_small(&asker, stack) => {
                note(
                    supervisor,
                    &notification,
                    name,
                    "refused with ENOMEM, since under the clock it takes 12 KiB, \
                     or what sysconf(_SC_MINSIGSTKSZ) says",
                );
                Answer::Error(libc::ENOMEM)
            }
            Question::SignalStack(_) => Answer::Continue,
            Question::IoUring | Question::TimeNamespace(_) | Question::Unknown => {
                done_in_real_time(supervisor, &notification)
            }
        };
        asker.answer(answer);
    }
    // A program and all that it started have ended, or it was let go.
    supervisor.cpu_time.forget_ended();
    supervisor.timers.forget_unheld();
}

fn done_in_real_time(supervisor: &Supervisor, notification: &Notification) -> Answer {
    let name = filter::name_of(notification.call);
    note(supervisor, notification, name, "done in real time");
    Answer::Continue
}

/// Answers what the image asks.
fn answer_image(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    question: ImageCall<Alleged>,
) -> Answer {
    let clock = &supervisor.clock;
    let cpu_time = |id: libc::clockid_t, real_ns| {
        let dilation = clock.dilation_on(asker.host().index());
        let cpu_time = &supervisor.cpu_time;
        Answer::Value(cpu_time.shown_ns(asker.thread(), id, real_ns, dilation))
    };
    match question {
        ImageCall::CpuTime { clock, real_ns } => cpu_time(clock as libc::clockid_t, real_ns),
        ImageCall::CpuTimeOfTimer { timer, real_ns } => {
            match processes::clock_of_timer(asker.thread(), timer) {
                Some(clock) => cpu_time(clock, real_ns),
                None => Answer::Error(libc::EINVAL),
            }
        }
        ImageCall::Give { gift } => asker.give_gift(gift),
        ImageCall::SetTimer {
            descriptor,
            flags,
            new,
            old,
            is_told,
        } => {
            let (new, old) = (new.of(), old.of());
            let set = SetTimer { flags, new, old };
            timer_calls::set_for_image(supervisor, asker, descriptor, set, is_told)
        }
        ImageCall::IsTimer { descriptor } => timer_calls::is_timer(supervisor, asker, descriptor),
        ImageCall::PhcStamps { command, stamps } => {
            phc::translate_stamps(clock, asker, command, stamps.of()).into()
        }
        ImageCall::PhcTime { device_ns, wall_ns } => {
            Answer::Value(phc::shown_ns(clock, asker.host(), device_ns, wall_ns))
        }
        ImageCall::FileDate { file, date_ns } => {
            Answer::Value(clock.file_date(asker.host(), file, date_ns))
        }
        ImageCall::KeepDate {
            file,
            date_ns,
            is_access,
        } => {
            clock.keep_date(file, date_ns, is_access);
            Answer::Value(0)
        }
    }
}

/// Whether two signals do not fit onto a stack for `sigaltstack`, where the kernel would
/// not notice and write below it. One that cannot be read is left to the kernel.
fn is_too_small(asker: &Asker<'_>, stack: Alleged<SignalStack>) -> bool {
    asker.read(stack).is_ok_and(|stack| {
        let is_in_use = stack.flags & libc::SS_DISABLE == 0;
        is_in_use && stack.size.checked_sub(arch::LEAST_SIGNAL_STACK).is_none()
    })
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
        Ok(ExecOutcome::Running) => {
            if let Some(remark) = supervisor.injector.take_remark() {
                (supervisor.warn)(remark);
            }
            warn_of_lost_privileges(supervisor, asker.thread);
        }
        Ok(ExecOutcome::Failed | ExecOutcome::Gone) => {}
        Err(error) => (supervisor.warn)(error.to_string()),
    }
}

/// Without root a session can only follow programs that gain no privileges by
/// being executed; the kernel then ignores the bits that would give them.
fn warn_of_lost_privileges(supervisor: &Supervisor, thread: i32) {
    use std::os::unix::fs::MetadataExt;
    if rustix::process::geteuid().is_root() {
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
fn note(supervisor: &Supervisor, asker: &Notification, call: &'static str, outcome: &'static str) {
    let program = processes::name(processes::process_of(asker.thread));
    if supervisor.report.count(
        program.clone(),
        call,
        outcome,
        (asker.thread, asker.instruction),
    ) {
        let what = match asker.call {
            libc::SYS_sigaltstack => "onto which two signals do not fit",
            libc::SYS_unshare | libc::SYS_setns => {
                "for a time namespace, whose offsets the virtual clock does not have"
            }
            _ if call == TCP_CONGESTION.name => "which would pace it by the machine's clock",
            _ => "which is not virtualised yet",
        };
        (supervisor.warn)(format!("{program} uses {call}, {what}: {outcome}"));
    }
}
