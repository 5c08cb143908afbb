//! Stopping another process for a moment and making system calls in it.
//!
//! All operations on one tracee must come from the thread that seized it.
//!
//! A tracee that dies is waited for here, so that its parent is notified. A child of ours is not:
//! its exit status can be read only once, and belongs to the thread that started it.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use crate::arch::{self, Registers};
use crate::error::GuestError;
use crate::linux::debugger::Debugger;
use crate::linux::processes;
use crate::linux::remote::Alleged;

/// Thread of another process that this thread has seized and stopped. Dropping it resumes the
/// thread.
pub(crate) struct Tracee {
    pid: i32,
    /// Process of the thread.
    process: i32,
    /// Signals that arrived during the attachment; delivered at its end.
    held_signals: Vec<i32>,
    gone: bool,
    /// Debugger that is the tracer, if it is not this process.
    through: Option<Box<RefCell<Debugger>>>,
}

/// Reason of a tracee's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A program was executed; the call has not returned yet.
    Exec,
    /// The stop requested by [`Tracee::interrupt`].
    Interrupted,
    /// A signal is about to be delivered.
    Signal(i32),
    /// The thread has ended.
    Gone,
}

impl Tracee {
    /// Attaches without stopping. Execs will be reported; if this process dies, the tracee dies too
    /// instead of running on half prepared.
    ///
    /// The tracee should be stopped meanwhile: a thread that executes a program may lose its
    /// number, and its process can be found out only before that. `is_it` returns true if the
    /// thread with this number is the intended one. It is called after the attachment, which
    /// prevents the reuse of the number.
    ///
    /// # Errors
    /// Returns the kernel's error; ESRCH if the thread is not the intended one, which was left
    /// alone.
    pub(crate) fn seize(pid: i32, is_it: impl FnOnce() -> bool) -> io::Result<Self> {
        let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
        request(libc::PTRACE_SEIZE, pid, 0, options as usize)?;
        let seized = Self {
            pid,
            process: processes::process_of(pid),
            held_signals: Vec::new(),
            gone: false,
            through: None,
        };
        if is_it() {
            Ok(seized)
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    }

    /// Returns a stopped process whose tracer is a debugger. It is not detached on drop, but stays
    /// stopped.
    pub(crate) fn through(debugger: Debugger, pid: i32) -> Self {
        Self {
            pid,
            process: pid,
            held_signals: Vec::new(),
            gone: false,
            through: Some(Box::new(RefCell::new(debugger))),
        }
    }

    /// Requests a stop at the next return to user mode.
    pub(crate) fn interrupt(&self) -> io::Result<()> {
        request(libc::PTRACE_INTERRUPT, self.pid, 0, 0).map(drop)
    }

    /// Waits for the next stop.
    pub(crate) fn wait(&mut self) -> Stop {
        loop {
            match self.look(self.pid, 0) {
                Ok(Some(Stop::Gone)) | Err(_) => return self.is_gone(),
                Ok(Some(stop)) => return stop,
                Ok(None) => {}
            }
        }
    }

    /// Waits for the next stop of a tracee that may be executing a program: an exec by another
    /// thread than the first gives the process the first thread's identifier. The kernel waits for
    /// one number or for all, and among all may be a child that has not been waited for yet; so
    /// both numbers are polled in turns.
    pub(crate) fn wait_through_exec(&mut self) -> Stop {
        if self.process == self.pid {
            return self.wait();
        }
        loop {
            let mut is_there = false;
            for whom in [self.pid, self.process] {
                match self.look(whom, libc::WNOHANG) {
                    Ok(Some(Stop::Gone)) | Err(_) => {}
                    Ok(Some(stop)) => return stop,
                    Ok(None) => is_there = true,
                }
            }
            if !is_there {
                return self.is_gone();
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn is_gone(&mut self) -> Stop {
        self.gone = true;
        Stop::Gone
    }

    /// Handles a change of `whom`, this tracee by one of its numbers. Returns `None` if the state
    /// had changed again before it was handled, or has not changed yet.
    ///
    /// # Errors
    /// Fails with ECHILD if there is no such tracee.
    fn look(&mut self, whom: i32, options: i32) -> io::Result<Option<Stop>> {
        let any = libc::WEXITED | libc::WSTOPPED;
        let Some(seen) = changed(whom, any | libc::WNOWAIT | options)? else {
            return Ok(None);
        };
        if !matches!(seen.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED) {
            if !is_own_child(whom) {
                changed(whom, libc::WEXITED | libc::WNOHANG)?;
            }
            return Ok(Some(Stop::Gone));
        }
        // The end of a tracee killed since then is not handled here.
        let Some(stopped) = changed(whom, libc::WSTOPPED | libc::WNOHANG)? else {
            return Ok(None);
        };
        self.pid = whom;
        // SAFETY: a child's change carries a status.
        let status = unsafe { stopped.si_status() };
        Ok(Some(match status >> 8 {
            libc::PTRACE_EVENT_EXEC => Stop::Exec,
            libc::PTRACE_EVENT_STOP => Stop::Interrupted,
            _ => Stop::Signal(status & 0xff),
        }))
    }

    /// Resumes the thread until its next stop.
    pub(crate) fn proceed(&self) -> io::Result<()> {
        request(libc::PTRACE_CONT, self.pid, 0, 0).map(drop)
    }

    /// Keeps a signal until the tracee is released.
    ///
    /// Signals that we sent ourselves to pause or resume the session are not kept: they may be out
    /// of date by then, and `Freezer::keep_stopped` restores the present state.
    pub(crate) fn hold_signal(&mut self, signal: i32) {
        if !(matches!(signal, libc::SIGSTOP | libc::SIGCONT)
            && self.sender() == Some(std::process::id() as i32))
        {
            self.held_signals.push(signal);
        }
    }

    /// Returns the sender of the signal for which the tracee has stopped.
    fn sender(&self) -> Option<i32> {
        // SAFETY: plain data.
        let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
        request(
            libc::PTRACE_GETSIGINFO,
            self.pid,
            0,
            &raw mut information as usize,
        )
        .ok()?;
        // SAFETY: a signal sent by `kill` carries a sender.
        (information.si_code == libc::SI_USER).then(|| unsafe { information.si_pid() })
    }

    /// Returns the process identifier (after an exec: the thread group's).
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn registers(&self) -> io::Result<Registers> {
        if let Some(debugger) = &self.through {
            return debugger.borrow_mut().registers();
        }
        // SAFETY: plain data.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        self.exchange_registers(libc::PTRACE_GETREGSET, &raw mut registers)?;
        Ok(registers)
    }

    pub(crate) fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        if let Some(debugger) = &self.through {
            return debugger.borrow_mut().set_registers(registers);
        }
        // The kernel only reads them.
        let registers = std::ptr::from_ref(registers).cast_mut();
        self.exchange_registers(libc::PTRACE_SETREGSET, registers)
    }

    fn exchange_registers(&self, what: libc::c_uint, registers: *mut Registers) -> io::Result<()> {
        let mut whole = libc::iovec {
            iov_base: registers.cast(),
            iov_len: size_of::<Registers>(),
        };
        let general = libc::NT_PRSTATUS as usize;
        request(what, self.pid, general, &raw mut whole as usize).map(drop)
    }

    /// Removes a signal from the thread's mask, and adds another instead if it was there.
    pub(crate) fn exchange_in_mask(&self, signal: i32, stand_in: i32) -> io::Result<()> {
        let mut mask = 0u64;
        match &self.through {
            Some(debugger) => mask = debugger.borrow_mut().mask()?,
            None => {
                request(PTRACE_GETSIGMASK, self.pid, 8, &raw mut mask as usize)?;
            }
        }
        let bit = 1u64 << (signal - 1);
        if mask & bit != 0 {
            mask = mask & !bit | 1 << (stand_in - 1);
        }
        match &self.through {
            Some(debugger) => debugger.borrow_mut().set_mask(mask),
            None => request(PTRACE_SETSIGMASK, self.pid, 8, &raw mut mask as usize).map(drop),
        }
    }

    pub(crate) fn peek(&self, address: u64) -> io::Result<u64> {
        if self.through.is_some() {
            let word = Alleged::<i64>::at(address).read(self.pid);
            let word = word.ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))?;
            return Ok(word as u64);
        }
        let mut word = 0u64;
        // The raw call stores the word at the address in the data argument.
        // SAFETY: eight bytes of ours.
        let result = unsafe {
            libc::syscall(
                libc::SYS_ptrace,
                libc::PTRACE_PEEKDATA,
                self.pid,
                address,
                &raw mut word,
            )
        };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(word)
        }
    }

    /// Writes a word, also into code (the kernel makes a private copy).
    pub(crate) fn poke(&self, address: u64, word: u64) -> io::Result<()> {
        if let Some(debugger) = &self.through {
            return debugger.borrow_mut().poke(address, word);
        }
        request(
            libc::PTRACE_POKEDATA,
            self.pid,
            address as usize,
            word as usize,
        )
        .map(drop)
    }

    /// Makes one system call in the tracee with the instruction for it at `instruction`; `base` are
    /// its own registers, which the caller restores afterwards. Returns the kernel's raw result.
    pub(crate) fn syscall(
        &mut self,
        base: &Registers,
        instruction: u64,
        number: i64,
        args: [u64; 6],
    ) -> io::Result<i64> {
        if self.through.is_some() {
            let calling = arch::calling(base, instruction, number, args);
            return self.syscall_through(&calling);
        }
        self.set_registers(&arch::calling(base, instruction, number, args))?;
        loop {
            request(libc::PTRACE_SINGLESTEP, self.pid, 0, 0)?;
            match self.wait() {
                Stop::Signal(libc::SIGTRAP) => return Ok(arch::result(&self.registers()?)),
                Stop::Signal(other) => self.hold_signal(other),
                Stop::Gone => return Err(io::ErrorKind::NotFound.into()),
                // A group stop or a late interrupt: step again.
                Stop::Interrupted | Stop::Exec => {}
            }
            let registers = self.registers()?;
            if arch::instruction(&registers) != instruction {
                return Ok(arch::result(&registers));
            }
        }
    }

    /// Makes a call, like [`Self::syscall`], that seems to seccomp filters to be made at `claimed`.
    /// Filters run after a tracer has seen the start of the call, so the tracer can set the
    /// address.
    pub(crate) fn syscall_claiming(
        &mut self,
        (base, instruction, claimed): (&Registers, u64, u64),
        number: i64,
        args: [u64; 6],
    ) -> io::Result<i64> {
        if self.through.is_some() {
            // A debugger's tracee cannot be stopped at the start of its call.
            return self.syscall(base, instruction, number, args);
        }
        self.set_registers(&arch::calling(base, instruction, number, args))?;
        self.proceed_to_call()?;
        let mut registers = self.registers()?;
        arch::set_instruction(&mut registers, claimed);
        self.set_registers(&registers)?;
        self.proceed_to_call()?;
        Ok(arch::result(&self.registers()?))
    }

    /// Resumes the tracee until a call begins or, inside a call, until it ends.
    fn proceed_to_call(&mut self) -> io::Result<()> {
        loop {
            request(libc::PTRACE_SYSCALL, self.pid, 0, 0)?;
            match self.wait() {
                Stop::Signal(libc::SIGTRAP) => return Ok(()),
                Stop::Signal(other) => self.hold_signal(other),
                Stop::Gone => return Err(io::ErrorKind::NotFound.into()),
                // A group stop or a delayed interrupt.
                Stop::Interrupted | Stop::Exec => {}
            }
        }
    }

    /// Makes a call, like [`Self::syscall`], through a debugger. The tracee may be stopped at the
    /// return of an exec; that return changes a register and takes one step.
    fn syscall_through(&mut self, calling: &Registers) -> io::Result<i64> {
        let at = arch::instruction(calling);
        let debugger = self.through.as_ref().expect("a debugger's");
        let mut held = Vec::new();
        let result = loop {
            let mut debugger = debugger.borrow_mut();
            debugger.set_registers(calling)?;
            let signal = match debugger.step()? {
                Stop::Signal(signal) => Some(signal),
                Stop::Gone => return Err(io::ErrorKind::NotFound.into()),
                Stop::Interrupted | Stop::Exec => None,
            };
            let registers = debugger.registers()?;
            let is_done = arch::instruction(&registers) != at;
            match signal {
                // The signal of the exec itself, sent to debuggers without PTRACE_O_TRACEEXEC.
                Some(libc::SIGTRAP) if !is_done && debugger.reason()?.1 == libc::SI_USER => {
                    held.push(libc::SIGTRAP);
                }
                Some(libc::SIGTRAP) | None => {}
                Some(other) => held.push(other),
            }
            if is_done {
                break arch::result(&registers);
            }
        };
        self.held_signals.extend(held);
        Ok(result)
    }

    /// Makes a call like [`Self::syscall`], with the kernel's errors as errors.
    pub(crate) fn syscall_checked(
        &mut self,
        base: &Registers,
        instruction: u64,
        (doing, number): (&str, i64),
        args: [u64; 6],
    ) -> Result<u64, GuestError> {
        let result = self.syscall(base, instruction, number, args);
        self.checked(doing, result)
    }

    /// Returns the result of a call, with the kernel's errors as errors.
    pub(crate) fn checked(&self, doing: &str, result: io::Result<i64>) -> Result<u64, GuestError> {
        let result = result.map_err(GuestError::system(format!(
            "{doing} in process {}",
            self.pid
        )))?;
        if (-4095..0).contains(&result) {
            return Err(GuestError::System {
                doing: format!("{doing} in process {}", self.pid),
                source: io::Error::from_raw_os_error(-result as i32),
            });
        }
        Ok(result as u64)
    }
}

impl Tracee {
    /// Returns true if the process has ended or is ending, as after a SIGKILL, which no tracer
    /// holds back.
    pub(crate) fn is_ending(&self) -> bool {
        self.gone
            || matches!(processes::state(self.pid), None | Some('Z' | 'X'))
            || processes::is_ending(self.pid)
            || processes::signal_state(self.pid, libc::SIGKILL).is_pending
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // Only a stopped thread can be released. A thread that is not stopped is about to die, and
        // its parent is notified after we are.
        while !self.gone
            && self.through.is_none()
            && request(libc::PTRACE_DETACH, self.pid, 0, 0).is_err()
        {
            let _ = self.interrupt();
            if let Stop::Signal(signal) = self.wait() {
                self.hold_signal(signal);
            }
        }
        if self.gone {
            return;
        }
        for &signal in &self.held_signals {
            // SAFETY: a signal that was to be delivered to this process anyway.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.pid, signal) };
        }
    }
}

/// Polling interval for the two numbers of an exec by another thread than the first.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Returns true if it is a process, not one of its threads, that we have started.
fn is_own_child(pid: i32) -> bool {
    let is_ours = |family: processes::Family| family.parent == std::process::id() as i32;
    processes::process_of(pid) == pid && processes::family(pid).is_some_and(is_ours)
}

/// Returns the result of `waitid` for a tracee of the calling thread; `None` if there is none.
fn changed(whom: i32, options: i32) -> io::Result<Option<libc::siginfo_t>> {
    // SAFETY: plain data.
    let mut change: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = options | libc::__WALL | libc::__WNOTHREAD;
    loop {
        // SAFETY: writes `change`.
        match unsafe { libc::waitid(libc::P_PID, whom as u32, &raw mut change, options) } {
            0 => break,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    // SAFETY: a child's change carries its number; 0 means no change.
    Ok((unsafe { change.si_pid() } != 0).then_some(change))
}

pub(super) const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
pub(super) const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;

fn request(what: libc::c_uint, pid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: addresses are in the tracee, or point to structures of ours that
    // are as large as the request says.
    let result = unsafe { libc::ptrace(what, pid, address, data) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    /// A number reused by another process: that process is left alone.
    #[test]
    fn what_is_not_meant_is_not_kept() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("it starts");
        let pid = child.id() as i32;
        let refused = Tracee::seize(pid, || false).err().expect("it is another");
        assert_eq!(refused.raw_os_error(), Some(libc::ESRCH));
        assert_eq!(processes::tracer_of(pid), None);
        drop(Tracee::seize(pid, || true).expect("now it is meant"));
        assert_eq!(child.try_wait().expect("our child"), None);
        child.kill().expect("it lives");
        child.wait().expect("our child");
    }

    #[test]
    fn a_process_that_is_killed_while_it_is_traced_is_ending() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("it starts");
        let tracee = Tracee::seize(child.id() as i32, || true).expect("it lives");
        assert!(!tracee.is_ending());
        child.kill().expect("it lives");
        assert!(tracee.is_ending());
        drop(tracee);
        child.wait().expect("our child");
    }

    /// A thread that follows an exec may be busy elsewhere until it has happened. The thread's
    /// number is unused by then.
    #[test]
    fn an_exec_by_another_thread_is_found_although_its_number_is_gone() {
        const EXECUTES: &str = "import os, sys, threading
def execute():
    sys.stdin.readline()
    os.execv('/bin/sleep', ['sleep', '600'])
threading.Thread(target=execute).start()
print('there', flush=True)
threading.Event().wait()";
        let mut child = Command::new("python3")
            .args(["-c", EXECUTES])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python is there");
        let process = child.id() as i32;
        let mut printed = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut printed, &mut line).expect("it says so");
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it lives");
        let mut threads =
            threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let thread: i32 = threads
            .find(|thread| *thread != process)
            .expect("two threads");

        let mut tracee = Tracee::seize(thread, || true).expect("nobody else traces it");
        child
            .stdin
            .take()
            .expect("piped")
            .write_all(b"\n")
            .expect("it reads");
        let number = PathBuf::from(format!("/proc/{process}/task/{thread}"));
        let begun = Instant::now();
        while number.exists() {
            assert!(
                begun.elapsed() < Duration::from_mins(2),
                "it executes nothing"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let stop = tracee.wait_through_exec();
        let followed = tracee.pid();
        drop(tracee);
        child.kill().expect("it lives");
        child.wait().expect("our child");
        assert_eq!((stop, followed), (Stop::Exec, process));
    }
}
