//! Stopping a thread of another process by ptrace, and making system calls in it.
//!
//! All operations on one tracee must come from the thread that seized it.
//!
//! A tracee that ends is reaped here, so that its parent is notified. A child of this process is
//! not reaped here: the kernel reports its exit status only once, and it belongs to the thread that
//! started the child.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use crate::arch::{self, Registers};
use crate::error::GuestError;
use crate::linux::debugger::Debugger;
use crate::linux::processes;
use crate::linux::remote::Alleged;

/// Thread of another process that the calling thread has seized and may stop. Dropping this value
/// releases the thread, which then continues.
pub(crate) struct Tracee {
    pid: i32,
    /// Identifier of the thread's process.
    process: i32,
    /// Signals that arrived while the thread was traced. They are delivered when it is released.
    held_signals: Vec<i32>,
    gone: bool,
    /// Thread of a debugger that is the tracer; `None` if this process is the tracer.
    through: Option<Box<RefCell<Debugger>>>,
}

/// Reason of a tracee's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A program was executed; the exec call has not returned yet.
    Exec,
    /// The stop requested by [`Tracee::interrupt`].
    Interrupted,
    /// A signal is about to be delivered.
    Signal(i32),
    /// The thread has ended.
    Gone,
}

impl Tracee {
    /// Attaches to a thread without stopping it. Execs will be reported. If this process dies, the
    /// tracee is killed, so that it does not run half prepared.
    ///
    /// The tracee should not run meanwhile: a thread that executes a program may lose its
    /// identifier, and its process can be determined only before that. `is_it` must return true if
    /// the thread with this identifier is the intended one. It is called after the attachment,
    /// which prevents the reuse of the identifier.
    ///
    /// Returns the kernel's error. Returns ESRCH if the thread is not the intended one, which was
    /// then detached again.
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

    /// Returns a handle of a stopped process whose tracer is a debugger. Dropping the handle does
    /// not release the process, which remains stopped.
    pub(crate) fn through(debugger: Debugger, pid: i32) -> Self {
        Self {
            pid,
            process: pid,
            held_signals: Vec::new(),
            gone: false,
            through: Some(Box::new(RefCell::new(debugger))),
        }
    }

    /// Requests that the tracee stop when it next returns to user mode.
    pub(crate) fn interrupt(&self) -> io::Result<()> {
        request(libc::PTRACE_INTERRUPT, self.pid, 0, 0).map(drop)
    }

    /// Waits for the tracee's next stop.
    pub(crate) fn wait(&mut self) -> Stop {
        loop {
            match self.look(self.pid, 0) {
                Ok(Some(Stop::Gone)) | Err(_) => return self.is_gone(),
                Ok(Some(stop)) => return stop,
                Ok(None) => {}
            }
        }
    }

    /// Waits for the next stop of a tracee that may be executing a program. If a thread other than
    /// the first executes a program, it gets the first thread's identifier. The kernel can wait for
    /// one identifier or for all children, and among all may be a child that another thread must
    /// reap; so both identifiers are polled alternately.
    pub(crate) fn wait_through_exec(&mut self) -> Stop {
        if self.process == self.pid {
            return self.wait();
        }
        loop {
            let mut is_there = false;
            for pid in [self.pid, self.process] {
                match self.look(pid, libc::WNOHANG) {
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

    /// Handles a state change of `pid`, which is this tracee under one of its identifiers. Returns
    /// `None` if the state has not changed, or had changed again before it was handled.
    ///
    /// # Errors
    /// Fails with ECHILD if there is no tracee with this identifier.
    fn look(&mut self, pid: i32, options: i32) -> io::Result<Option<Stop>> {
        let any = libc::WEXITED | libc::WSTOPPED;
        let Some(seen) = changed(pid, any | libc::WNOWAIT | options)? else {
            return Ok(None);
        };
        if !matches!(seen.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED) {
            if !is_own_child(pid) {
                changed(pid, libc::WEXITED | libc::WNOHANG)?;
            }
            return Ok(Some(Stop::Gone));
        }
        // If the tracee has been killed since then, its end is not handled here.
        let Some(stopped) = changed(pid, libc::WSTOPPED | libc::WNOHANG)? else {
            return Ok(None);
        };
        self.pid = pid;
        // SAFETY: the information about a child's state change contains a status.
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

    /// Stores a signal, which is delivered when the tracee is released.
    ///
    /// Signals that the supervisor itself sent to pause or resume the session are not stored: they
    /// may be obsolete by then, and `Freezer::keep_stopped` restores the present state.
    pub(crate) fn hold_signal(&mut self, signal: i32) {
        if !(matches!(signal, libc::SIGSTOP | libc::SIGCONT)
            && self.sender() == Some(std::process::id() as i32))
        {
            self.held_signals.push(signal);
        }
    }

    /// Returns the process that sent the signal at which the tracee has stopped; `None` if it is
    /// unknown.
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
        // SAFETY: the information about a signal sent by `kill` contains its sender.
        (information.si_code == libc::SI_USER).then(|| unsafe { information.si_pid() })
    }

    /// Returns the identifier of the thread; after an exec, that of its thread group.
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
        // The kernel only reads the registers.
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

    /// Removes `signal` from the thread's signal mask. If the mask contained it, adds `stand_in`
    /// instead.
    pub(crate) fn exchange_in_mask(&self, signal: i32, stand_in: i32) -> io::Result<()> {
        let mut mask = 0u64;
        match &self.through {
            Some(debugger) => mask = debugger.borrow_mut().mask()?,
            None => {
                request(PTRACE_GETSIGMASK, self.pid, 8, &raw mut mask as usize)?;
            }
        }
        let bit = 1u64 << (signal - 1);
        if mask & bit == 0 {
            return Ok(());
        }
        mask = mask & !bit | 1 << (stand_in - 1);
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
        // The raw call stores the word at the address that the data argument contains. SAFETY: it
        // writes eight bytes of a variable of ours.
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

    /// Writes a word to the tracee's memory. The word may be in code, of which the kernel then
    /// makes a private copy.
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

    /// Makes one system call in the tracee by the system call instruction at `instruction`. `base`
    /// are the tracee's own registers, which the caller must restore afterwards. Returns the
    /// kernel's raw result.
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
                // The stop is a group stop or a late interrupt, so the tracee is stepped again.
                Stop::Interrupted | Stop::Exec => {}
            }
            let registers = self.registers()?;
            if arch::instruction(&registers) != instruction {
                return Ok(arch::result(&registers));
            }
        }
    }

    /// Makes a call like [`Self::syscall`] that appears to seccomp filters to be made at the
    /// address `claimed`. The kernel runs filters after a tracer has seen the start of the call, so
    /// the tracer can set the address then.
    pub(crate) fn syscall_claiming(
        &mut self,
        (base, instruction, claimed): (&Registers, u64, u64),
        number: i64,
        args: [u64; 6],
    ) -> io::Result<i64> {
        if self.through.is_some() {
            // The tracee of a debugger cannot be stopped at the start of its call.
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

    /// Resumes the tracee until it begins a system call, or, inside a call, until the call ends.
    fn proceed_to_call(&mut self) -> io::Result<()> {
        loop {
            request(libc::PTRACE_SYSCALL, self.pid, 0, 0)?;
            match self.wait() {
                Stop::Signal(libc::SIGTRAP) => return Ok(()),
                Stop::Signal(other) => self.hold_signal(other),
                Stop::Gone => return Err(io::ErrorKind::NotFound.into()),
                // The stop is a group stop or a delayed interrupt.
                Stop::Interrupted | Stop::Exec => {}
            }
        }
    }

    /// Makes a call like [`Self::syscall`], through a debugger. The tracee may be stopped at the
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
                // The stop is caused by the SIGTRAP that the kernel sends at an exec to debuggers
                // without PTRACE_O_TRACEEXEC.
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

    /// Makes a call like [`Self::syscall`], and converts an errno of the kernel to an error.
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

    /// Converts the raw result of a call: an errno of the kernel becomes an error that mentions
    /// `doing`.
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
    /// Returns true if the process has ended or is about to end, for example after a SIGKILL, which
    /// a tracer cannot hold back.
    pub(crate) fn is_ending(&self) -> bool {
        self.gone
            || matches!(processes::state(self.pid), None | Some('Z' | 'X'))
            || processes::is_ending(self.pid)
            || processes::signal_state(self.pid, libc::SIGKILL).is_pending
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // Only a stopped thread can be released. If the thread does not stop, it is about to end,
        // and its parent is notified after this process.
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
            // SAFETY: the kernel was about to deliver this signal to the thread in any case.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.pid, signal) };
        }
    }
}

/// Interval at which the two identifiers are polled during an exec by a thread other than the
/// first.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Returns true if `pid` is a process, not a thread, that this process has started.
fn is_own_child(pid: i32) -> bool {
    let is_ours = |family: processes::Family| family.parent == std::process::id() as i32;
    processes::process_of(pid) == pid && processes::family(pid).is_some_and(is_ours)
}

/// Returns the result of `waitid` for a tracee of the calling thread; `None` if its state has not
/// changed.
fn changed(pid: i32, options: i32) -> io::Result<Option<libc::siginfo_t>> {
    // SAFETY: plain data.
    let mut change: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = options | libc::__WALL | libc::__WNOTHREAD;
    loop {
        // SAFETY: writes `change`.
        match unsafe { libc::waitid(libc::P_PID, pid as u32, &raw mut change, options) } {
            0 => break,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    // SAFETY: the information contains the child's identifier; 0 means that no state has changed.
    Ok((unsafe { change.si_pid() } != 0).then_some(change))
}

pub(super) const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
pub(super) const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;

fn request(what: libc::c_uint, pid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the addresses are in the tracee, or point to structures of ours that have the size
    // required by the request.
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

    /// If another process has the reused identifier, it must not be affected.
    #[test]
    fn a_process_with_a_reused_identifier_is_not_traced() {
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

    /// The thread that follows an exec may be busy until the exec has happened. The identifier of
    /// the executing thread is unused by then.
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

        let mut tracee = Tracee::seize(thread, || true).expect("it has no other tracer");
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
