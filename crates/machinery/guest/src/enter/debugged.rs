//! Preparation of programs executed under a debugger.

use std::io;

use crate::arch;
use crate::enter::inject::Injector;
use crate::error::GuestError;
use crate::linux::debugger::Debugger;
use crate::linux::processes;
use crate::linux::ptrace::{Stop, Tracee};
use crate::supervise::notify::{Answer, Listener, Notification};

/// Outcome of a debugger's request to resume a new program.
pub(crate) enum Prepared {
    /// The program is prepared. It remains stopped until this value is dropped.
    Done(Tracee),
    /// It is too early: the debugger has not seen the exec return yet. The debugger remains stopped
    /// until this value is dropped.
    TooEarly(Tracee),
}

impl Injector {
    /// Prepares the program of `process` as after an exec that the supervisor follows. The debugger
    /// `asker` has requested to resume the program; its request is repeated afterwards.
    ///
    /// # Errors
    /// Fails if the program could not be prepared. It was then killed.
    pub(crate) fn prepare_debugged(
        &self,
        listener: &Listener,
        asker: &Notification,
        process: i32,
        args: [u64; 6],
        is_vdso: bool,
    ) -> Result<Prepared, GuestError> {
        let held = Tracee::seize(asker.thread, || listener.is_waiting(asker)).and_then(|thread| {
            // The debugger does not see this answer, since its request is repeated.
            let answer = || listener.answer(asker, Answer::Value(0));
            Debugger::hold(thread, args, self.image.syscall, answer)
        });
        let mut debugger = match held {
            Ok(debugger) => debugger,
            Err(source) => {
                listener.answer(asker, Answer::Error(libc::EPERM));
                let debugger = processes::name(asker.thread);
                return Err(GuestError::System {
                    doing: format!(
                        "preparing the program that {debugger} (process {}) debugs: attaching \
                         to the debugger, which must not be debugged itself",
                        asker.thread
                    ),
                    source,
                });
            }
        };
        let in_exec = libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8;
        let sees_return = matches!(args[0] as u32, libc::PTRACE_SYSCALL | PTRACE_SYSEMU);
        if sees_return && debugger.reason().is_ok_and(|(_, code)| code == in_exec) {
            return Ok(Prepared::TooEarly(Tracee::through(debugger, process)));
        }
        let mut tracee = Tracee::through(debugger, process);
        self.equip(&mut tracee, is_vdso)
            .inspect_err(|_| {
                processes::kill_if(process, |_| true);
            })
            .map(|()| Prepared::Done(tracee))
    }

    fn equip(&self, tracee: &mut Tracee, is_vdso: bool) -> Result<(), GuestError> {
        let pid = tracee.pid();
        let failed = |what: &str| GuestError::system(format!("{what} of process {pid}"));
        let base = tracee
            .registers()
            .map_err(failed("reading the registers"))?;
        let at = arch::instruction(&base);
        let entry = tracee
            .peek(at)
            .map_err(failed("reading the first instruction"))?;
        tracee
            .poke(at, arch::with_syscall(entry))
            .map_err(failed("writing the first instruction"))?;
        // The supervisor answers each exec without a program with a descriptor.
        let mut ask = || {
            let call = ("asking for a descriptor", libc::SYS_execve);
            tracee.syscall_checked(&base, at, call, [0; 6])
        };
        let descriptors = [ask()? as i32, ask()? as i32];
        tracee
            .poke(at, entry)
            .map_err(failed("restoring the first instruction"))?;
        tracee
            .set_registers(&base)
            .map_err(failed("restoring the registers"))?;
        self.prepare(tracee, descriptors, is_vdso)
    }

    /// Makes a thread that waits in its exec a tracee of its parent first, as the thread has
    /// requested before. The thread then repeats the exec.
    ///
    /// # Errors
    /// Fails if the supervisor cannot attach to the thread. The exec has then failed.
    pub(crate) fn begin_trace(
        &self,
        listener: &Listener,
        asker: &Notification,
    ) -> Result<(), GuestError> {
        let (call, args) = asker.decode(|call, args| (call, args));
        if call != libc::SYS_execve {
            // C libraries fall back on `execve` after this error of `execveat`.
            listener.answer(asker, Answer::Error(libc::ENOSYS));
            return Ok(());
        }
        let begin = || -> io::Result<()> {
            let mut thread = Tracee::seize(asker.thread, || listener.is_waiting(asker))?;
            thread.interrupt()?;
            listener.answer(asker, Answer::Value(0));
            loop {
                match thread.wait() {
                    Stop::Interrupted => break,
                    Stop::Gone => return Ok(()),
                    Stop::Signal(signal) => thread.hold_signal(signal),
                    Stop::Exec => {}
                }
                thread.proceed()?;
            }
            let base = thread.registers()?;
            let at = arch::instruction(&base) - arch::SYSCALL.len() as u64;
            thread.set_registers(&arch::tracing_then(&base, self.image.be_traced, at, args))
        };
        begin().map_err(|source| {
            listener.answer(asker, Answer::Error(libc::EPERM));
            GuestError::System {
                doing: format!("attaching to process {} for its exec", asker.thread),
                source,
            }
        })
    }
}

/// PTRACE_SYSEMU, which the libc crate does not define.
const PTRACE_SYSEMU: libc::c_uint = 31;
