//! Stopping another process for a moment and making system calls in it.
//!
//! All operations on one tracee must come from the thread that seized it.

use std::io;

use crate::arch::{self, Registers};
use crate::error::GuestError;

/// A thread of another process that this thread has seized and stopped.
/// Dropping it lets it go on.
pub(crate) struct Tracee {
    pid: i32,
    /// Signals that arrived while it was ours; delivered when it is let go.
    held_signals: Vec<i32>,
    gone: bool,
}

/// Why a tracee stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A program was executed; the call has not returned yet.
    Exec,
    /// The stop that [`Tracee::interrupt`] asked for.
    Interrupted,
    /// A signal is about to be delivered.
    Signal(i32),
    /// It exists no longer.
    Gone,
}

impl Tracee {
    /// Attaches without stopping. Execs will be reported; should we die, the
    /// tracee dies too instead of running on half prepared.
    pub(crate) fn seize(pid: i32) -> io::Result<Self> {
        let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
        request(libc::PTRACE_SEIZE, pid, 0, options as usize)?;
        Ok(Self {
            pid,
            held_signals: Vec::new(),
            gone: false,
        })
    }

    /// Asks it to stop at its next return to user mode.
    pub(crate) fn interrupt(&self) -> io::Result<()> {
        request(libc::PTRACE_INTERRUPT, self.pid, 0, 0).map(drop)
    }

    /// Waits for the next stop.
    pub(crate) fn wait(&mut self) -> Stop {
        self.wait_as(self.pid)
    }

    /// Waits for the next stop of a tracee that may be executing a program: an
    /// exec by another thread than the first gives the process the first
    /// thread's identifier. So any tracee of the calling thread is waited for,
    /// of which there must be only this one.
    pub(crate) fn wait_through_exec(&mut self) -> Stop {
        self.wait_as(-1)
    }

    fn wait_as(&mut self, whom: i32) -> Stop {
        let mut status = 0;
        // SAFETY: writes `status`.
        let pid = unsafe { libc::waitpid(whom, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if pid < 0 || libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            self.gone = true;
            return Stop::Gone;
        }
        self.pid = pid;
        match status >> 16 {
            libc::PTRACE_EVENT_EXEC => Stop::Exec,
            libc::PTRACE_EVENT_STOP => Stop::Interrupted,
            _ => Stop::Signal(libc::WSTOPSIG(status)),
        }
    }

    /// Lets it run until its next stop.
    pub(crate) fn proceed(&self) -> io::Result<()> {
        request(libc::PTRACE_CONT, self.pid, 0, 0).map(drop)
    }

    /// Keeps a signal until the tracee is let go.
    ///
    /// Not what we sent ourselves to pause or resume the session: by then it
    /// may be out of date, and `Freezer::keep_stopped` says what holds.
    pub(crate) fn hold_signal(&mut self, signal: i32) {
        if !(matches!(signal, libc::SIGSTOP | libc::SIGCONT)
            && self.sender() == Some(std::process::id() as i32))
        {
            self.held_signals.push(signal);
        }
    }

    /// Who sent the signal for which it has stopped.
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

    /// Process identifier (after an exec: the thread group's).
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn registers(&self) -> io::Result<Registers> {
        // SAFETY: plain data.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        self.exchange_registers(libc::PTRACE_GETREGSET, &raw mut registers)?;
        Ok(registers)
    }

    pub(crate) fn set_registers(&self, registers: &Registers) -> io::Result<()> {
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

    /// Takes a signal out of the thread's mask, and puts another in its place if it was
    /// there.
    pub(crate) fn exchange_in_mask(&self, signal: i32, stand_in: i32) -> io::Result<()> {
        let mut mask = 0u64;
        request(PTRACE_GETSIGMASK, self.pid, 8, &raw mut mask as usize)?;
        let bit = 1u64 << (signal - 1);
        if mask & bit != 0 {
            mask = mask & !bit | 1 << (stand_in - 1);
        }
        request(PTRACE_SETSIGMASK, self.pid, 8, &raw mut mask as usize).map(drop)
    }

    pub(crate) fn peek(&self, address: u64) -> io::Result<u64> {
        let mut word = 0u64;
        // The raw call stores the word where the data argument points.
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

    /// Writes a word, into code as well (the kernel breaks the sharing).
    pub(crate) fn poke(&self, address: u64, word: u64) -> io::Result<()> {
        request(
            libc::PTRACE_POKEDATA,
            self.pid,
            address as usize,
            word as usize,
        )
        .map(drop)
    }

    /// Makes one system call in the tracee with the instruction for it at
    /// `instruction`; `base` are its own registers, which the caller restores
    /// when done. Returns the kernel's raw result.
    pub(crate) fn syscall(
        &mut self,
        base: &Registers,
        instruction: u64,
        number: i64,
        args: [u64; 6],
    ) -> io::Result<i64> {
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

    /// As [`Self::syscall`], with the kernel's errors as errors.
    pub(crate) fn syscall_checked(
        &mut self,
        base: &Registers,
        instruction: u64,
        (doing, number): (&str, i64),
        args: [u64; 6],
    ) -> Result<u64, GuestError> {
        let result = self
            .syscall(base, instruction, number, args)
            .map_err(GuestError::system(format!(
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

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        // Failure means that it has died, and then there is nothing to undo.
        let _ = request(libc::PTRACE_DETACH, self.pid, 0, 0);
        for &signal in &self.held_signals {
            // SAFETY: a signal that was on its way to this process anyway.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.pid, signal) };
        }
    }
}

const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;

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
