//! Answers to the requests that the filters send to the supervisor: execs, timers, clocks, and
//! questions of the image.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use timeloom_abi::calls::{ImageCall, TCP_CONGESTION, TERMINAL_INPUT};
use tracing::{debug, debug_span};

use crate::arch;
use crate::card;
use crate::enter::debugged::Prepared;
use crate::enter::inject::{ExecOutcome, Outfit};
use crate::error::GuestError;
use crate::filter;
use crate::linux::pidfd::Pidfd;
use crate::linux::processes;
use crate::linux::remote::Alleged;
use crate::names::pages_of;
use crate::phc;
use crate::supervise::asker::Asker;
use crate::supervise::clock_calls;
use crate::supervise::debugged::{Unprepared, Waited};
use crate::supervise::notify::{Answer, Listener, Notification};
use crate::supervise::question::{Question, SignalStack};
use crate::supervise::supervisor::Supervisor;
use crate::supervise::timer_calls::{self, SetTimer};

/// Answers the requests of one listener until no process with its filter is left. Runs in its own
/// thread.
pub(crate) fn serve(listener: &Arc<Listener>, supervisor: &Arc<Supervisor>) {
    while let Some(notification) = listener.receive() {
        let asker = Asker {
            listener,
            notification: &notification,
        };
        let name = filter::name_of(notification.call);
        let answer = match Question::in_call(&notification) {
            Question::Exec if let Some(gift) = supervisor.debugged.next_gift(&asker) => {
                let outfit = outfit_of(listener, supervisor);
                asker.give([outfit.page, outfit.image][gift.min(1)], false)
            }
            Question::Trace(args) if args[0] == PTRACE_TRACEME => {
                supervisor.debugged.traceme(&asker)
            }
            Question::Trace(args) => match supervisor.debugged.unprepared(&asker, args) {
                None => Answer::Continue,
                Some(unprepared) => {
                    let (listener, its) = (Arc::clone(listener), Arc::clone(supervisor));
                    let process = unprepared.process;
                    let work = move || {
                        prepare_debugged(&listener, &its, &notification, &unprepared);
                    };
                    match std::thread::Builder::new().spawn(work) {
                        Ok(_) => continue,
                        Err(_) => {
                            supervisor.debugged.ask_at_next(process);
                            Answer::Error(libc::EAGAIN)
                        }
                    }
                }
            },
            Question::Exec => {
                // A separate thread follows the exec: ptrace binds a tracee to the thread that
                // seized it, and loading a program may take long.
                let (listener, supervisor) = (Arc::clone(listener), Arc::clone(supervisor));
                let host = listener.host().index();
                supervisor.exec_begun(host);
                let its = Arc::clone(&supervisor);
                let follow = move || {
                    let (thread, host_name) = (notification.thread, listener.host().log_name());
                    let _span = debug_span!("exec", host = host_name, thread).entered();
                    let outcome = follow_exec(&listener, &its, &notification);
                    its.exec_ended(host);
                    debug!(
                        program = processes::name(thread),
                        virtual_ns = its.clock.now().as_ns(),
                        "{outcome}"
                    );
                };
                match std::thread::Builder::new().spawn(follow) {
                    Ok(_) => continue,
                    // No thread could be started. The exec fails with the error of a failing fork,
                    // which programs can handle.
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
                    // This precedes the answer, so that timers have reported the step by then.
                    supervisor.tell_of_steps();
                }
                if supervisor.clock.take_sped_up() {
                    supervisor.interrupt_soon();
                }
                answer
            }
            Question::Image(Some(question)) => answer_image(supervisor, &asker, question),
            Question::Image(None) => Answer::Error(libc::EINVAL),
            // ENOSYS is the error of a kernel without io_uring, upon which programs use other
            // calls.
            Question::IoUring if !supervisor.allow_leaks.load(Ordering::Relaxed) => {
                note(supervisor, &notification, name, "refused");
                Answer::Error(libc::ENOSYS)
            }
            Question::TerminalInput(command) => terminal_input(supervisor, &asker, command),
            Question::RealTime(call) => match call.verdict(&asker, supervisor.pacing()) {
                Some(verdict) => {
                    if let Some(outcome) = verdict.outcome {
                        note(supervisor, &notification, verdict.name, outcome);
                    }
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
                    "refused with ENOMEM, since under the clock it needs 12 KiB, or what \
                     sysconf(_SC_MINSIGSTKSZ) says",
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
    // The program and all its descendants have ended, or it was released.
    supervisor.cpu_time.forget_ended();
    supervisor.timers.forget_unheld();
}

fn done_in_real_time(supervisor: &Supervisor, notification: &Notification) -> Answer {
    let name = filter::name_of(notification.call);
    note(supervisor, notification, name, "done in real time");
    Answer::Continue
}

/// Answers a question of the image.
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
        ImageCall::CardTime { clock: id, time } => {
            card::time(clock, asker, id as libc::clockid_t, time.of()).into()
        }
        ImageCall::CardIoctl {
            descriptor,
            command,
            argument,
        } => card::ioctl(clock, asker, (descriptor, command), argument.of()).into(),
        ImageCall::OpenCard { flags } => card::open(asker, flags),
        ImageCall::CardStamp {
            kernel_ns,
            data,
            length,
            is_sent,
        } => card::stamp_ns(clock, asker, kernel_ns, (data.of(), length), is_sent).into(),
        ImageCall::Confines => {
            supervisor.injector.expect_filters();
            Answer::Value(0)
        }
        ImageCall::Ended { call } => {
            supervisor.report_end_by_filter(asker.process(), call);
            Answer::Value(0)
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

/// Refuses an `ioctl` that inserts terminal input, unless the program has the privilege. By
/// inserting input into a shared terminal, a program of another user, or one without root's rights,
/// would get the rights of the terminal's reader. Newer kernels require the same capability, and
/// return the same errors.
fn terminal_input(supervisor: &Supervisor, asker: &Asker<'_>, command: u32) -> Answer {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    match asker.has_capability(CAP_SYS_ADMIN) {
        Ok(true) => Answer::Continue,
        Err(errno) => Answer::Error(errno),
        Ok(false) => {
            let [types, _] = TERMINAL_INPUT;
            let (name, errno) = match command == types {
                true => ("TIOCSTI", libc::EIO),
                false => ("TIOCLINUX", libc::EPERM),
            };
            if !supervisor.refused_input.swap(true, Ordering::Relaxed) {
                let program = processes::name(asker.process());
                (supervisor.warn)(format!(
                    "{program} uses ioctl({name}), by which input is put into a terminal: refused \
                     without CAP_SYS_ADMIN, as by Linux 6.7 with dev.tty.legacy_tiocsti = 0"
                ));
            }
            Answer::Error(errno)
        }
    }
}

/// Returns true if two signals do not fit onto a stack that a program passes to `sigaltstack`. The
/// kernel would then write below the stack. If the structure is not readable, the kernel must
/// handle the call.
fn is_too_small(asker: &Asker<'_>, stack: Alleged<SignalStack>) -> bool {
    asker.read(stack).is_ok_and(|stack| {
        let is_in_use = stack.flags & libc::SS_DISABLE == 0;
        is_in_use && stack.size.checked_sub(arch::LEAST_SIGNAL_STACK).is_none()
    })
}

/// Answers an exec, and returns its outcome for the log. Runs in its own thread.
fn follow_exec(listener: &Listener, supervisor: &Supervisor, asker: &Notification) -> &'static str {
    let process = processes::process_of(asker.thread);
    let debugger = processes::tracer_of(asker.thread);
    if !listener.is_waiting(asker) {
        return "interrupted";
    }
    if let Some(debugger) = debugger {
        follow_under_debugger(listener, supervisor, asker, (process, debugger));
        return "left to the debugger";
    }
    if supervisor.debugged.is_due(process) {
        if let Err(error) = supervisor.injector.begin_trace(listener, asker) {
            (supervisor.warn)(error.to_string());
        }
        return "left to the debugger";
    }
    let adopt = |pid: i32, outcome: &ExecOutcome| admit(listener, supervisor, pid, outcome);
    let outfit = outfit_of(listener, supervisor);
    match supervisor
        .injector
        .follow_exec(listener, asker, outfit, adopt)
    {
        Ok(ExecOutcome::Running) => {
            if let Some(remark) = supervisor.injector.take_remark() {
                (supervisor.warn)(remark);
            }
            warn_of_lost_privileges(supervisor, asker.thread);
            "executed"
        }
        Ok(ExecOutcome::Failed) => "not executed: the kernel refused",
        Ok(ExecOutcome::Gone) => "not executed: the process has ended",
        Err(error) => {
            (supervisor.warn)(error.to_string());
            "not prepared"
        }
    }
}

/// Lets an exec proceed that a debugger sees. The program is prepared at the debugger's first
/// request to resume it. If the debugger ends before that, the program is killed.
fn follow_under_debugger(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    (process, debugger): (i32, i32),
) {
    let is_guest = |pid| pages_of(pid).iter().any(|page| !page.writable);
    let refuse = |cause: &str| {
        let name = processes::name(debugger);
        (supervisor.warn)(format!(
            "process {process} cannot execute a program: {name} (process {debugger}) traces it, \
             and {cause}; start the debugger in the session (`timeloom exec -- {name} ...`, or \
             in a `timeloom shell`), or let it detach first"
        ));
        listener.answer(asker, Answer::Error(libc::EPERM));
    };
    if !is_guest(debugger) {
        return refuse("runs outside of the session");
    }
    if processes::tracer_of(debugger).is_some() {
        return refuse("is traced itself");
    }
    let held = Pidfd::of_process(processes::process_of(debugger));
    let noted = held.and_then(|held| Ok((held, supervisor.debugged.executes(process)?)));
    let (held, done) = match noted {
        Ok(both) => both,
        Err(error) => {
            (supervisor.warn)(format!("following an exec under a debugger: {error}"));
            return listener.answer(asker, Answer::Error(libc::EAGAIN));
        }
    };
    listener.answer(asker, Answer::Continue);
    if supervisor.debugged.wait(process, &done, &held) == Waited::DebuggerEnded {
        let is_unprepared = |pid| !is_guest(pid);
        if processes::kill_if(process, is_unprepared) {
            (supervisor.warn)(format!(
                "process {process} was ended: its debugger ended before it let the program \
                 begin, which would have run on the machine's clock"
            ));
        }
    }
}

/// Prepares a program that a debugger is about to resume. Runs in its own thread.
fn prepare_debugged(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    unprepared: &Unprepared,
) {
    let Unprepared { process, args } = *unprepared;
    let prepared = supervisor
        .injector
        .prepare_debugged(listener, asker, process, args, true);
    let admitted = match prepared {
        Ok(Prepared::TooEarly(held)) => {
            supervisor.debugged.ask_once_more(process);
            drop(held);
            return;
        }
        Ok(Prepared::Done(held)) => {
            let admitted = admit(listener, supervisor, process, &ExecOutcome::Running);
            drop(held);
            admitted
        }
        Err(error) => Err(error),
    };
    supervisor.debugged.forget(process);
    if let Err(error) = admitted {
        (supervisor.warn)(error.to_string());
    }
}

/// Adds a process whose exec has ended to the freezer. If the session is paused, a launched program
/// is thereby stopped before its first instruction.
fn admit(
    listener: &Listener,
    supervisor: &Supervisor,
    pid: i32,
    outcome: &ExecOutcome,
) -> Result<(), GuestError> {
    if matches!(outcome, ExecOutcome::Failed) {
        return supervisor.freezer.keep_stopped(pid);
    }
    supervisor.timers.forget_posix(pid);
    let mut newcomers = supervisor.newcomers.lock();
    match newcomers.iter().position(|&other| other == pid) {
        Some(index) => {
            newcomers.swap_remove(index);
            supervisor.freezer.adopt(pid, listener.host().index())
        }
        None => supervisor.freezer.keep_stopped(pid),
    }
}

/// Returns the objects to map into a new program of this listener.
fn outfit_of<'a>(listener: &'a Listener, supervisor: &'a Supervisor) -> Outfit<'a> {
    let image = listener.image().unwrap_or(&supervisor.injector.image.file);
    Outfit {
        page: listener.host().page().file.as_fd(),
        image: image.as_fd(),
        is_vdso: true,
    }
}

const PTRACE_TRACEME: u64 = libc::PTRACE_TRACEME as u64;

/// Warns of lost privileges. Without root, a session can follow only programs that gain no
/// privileges by an exec; the kernel then ignores set-user-id bits and file capabilities.
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

/// Counts a call that is refused or not virtualised, and reports the first of its kind.
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
