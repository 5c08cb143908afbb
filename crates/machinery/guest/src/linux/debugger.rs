//! ptrace requests that the supervisor issues through a debugger in the session.
//!
//! A process has at most one tracer. So only the debugger's own thread can change a tracee of a
//! debugger in the session. The supervisor stops that thread at one of its requests and makes it
//! issue other requests first. The debugger does not notice this: its own request is repeated at
//! the end.

use std::io;

use crate::arch::{self, Registers};
use crate::linux::ptrace::{Stop, Tracee};
use crate::linux::remote::Alleged;

/// Thread of a debugger that is stopped before one of its requests.
pub(crate) struct Debugger {
    thread: Tracee,
    /// Registers of the thread after the request.
    base: Registers,
    /// Arguments of the request.
    args: [u64; 6],
    /// Address of a system call instruction that the filter lets pass.
    syscall: u64,
    /// Address of scratch memory below the thread's stack.
    scratch: u64,
}

impl Debugger {
    /// Stops a thread that waits for the answer to its `ptrace` with these arguments; `answer`
    /// sends the answer. The request itself is made when the returned value is dropped.
    ///
    /// # Errors
    /// Fails if the thread itself is traced, or has ended.
    pub(crate) fn hold(
        mut thread: Tracee,
        args: [u64; 6],
        syscall: u64,
        answer: impl FnOnce(),
    ) -> io::Result<Self> {
        thread.interrupt()?;
        answer();
        loop {
            match thread.wait() {
                Stop::Interrupted => break,
                Stop::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Stop::Signal(signal) => thread.hold_signal(signal),
                Stop::Exec => {}
            }
            thread.proceed()?;
        }
        let base = thread.registers()?;
        let mut held = Self {
            thread,
            base,
            args,
            syscall,
            scratch: (arch::stack(&base) - SCRATCH) & !15,
        };
        // The kernel extends a stack only for accesses by its own thread, so the thread accesses
        // the memory.
        let mask = [libc::SIG_BLOCK as u64, 0, held.scratch, 8, 0, 0];
        held.call(libc::SYS_rt_sigprocmask, mask)?;
        Ok(held)
    }

    /// Returns the tracee's number in the debugger's PID namespace.
    fn target(&self) -> u64 {
        self.args[1]
    }

    /// Makes a system call in the debugger's thread.
    fn call(&mut self, number: i64, args: [u64; 6]) -> io::Result<i64> {
        let result = self
            .thread
            .syscall(&self.base, self.syscall, number, args)?;
        if (-4095..0).contains(&result) {
            return Err(io::Error::from_raw_os_error(-result as i32));
        }
        Ok(result)
    }

    fn request(&mut self, what: libc::c_uint, address: u64, data: u64) -> io::Result<()> {
        let args = [what.into(), self.target(), address, data, 0, 0];
        self.call(libc::SYS_ptrace, args).map(drop)
    }

    fn put(&self, words: &[u64]) -> io::Result<()> {
        let places = (self.scratch..).step_by(8);
        let mut each = places.zip(words);
        each.try_for_each(|(place, &word)| self.thread.poke(place, word))
    }

    fn take<const N: usize>(&self) -> io::Result<[i64; N]> {
        let words = Alleged::<[i64; N]>::at(self.scratch).read(self.thread.pid());
        words.ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))
    }

    pub(super) fn registers(&mut self) -> io::Result<Registers> {
        let buffer = self.scratch + 16;
        self.put(&[buffer, 8 * WORDS as u64])?;
        let scratch = self.scratch;
        self.request(libc::PTRACE_GETREGSET, libc::NT_PRSTATUS as u64, scratch)?;
        let words: [i64; 2 + WORDS] = self.take()?;
        let words: [i64; WORDS] = std::array::from_fn(|index| words[2 + index]);
        // SAFETY: both types have the same size; every bit pattern is valid in registers.
        Ok(unsafe { std::mem::transmute::<[i64; WORDS], Registers>(words) })
    }

    pub(super) fn set_registers(&mut self, registers: &Registers) -> io::Result<()> {
        // SAFETY: the structure consists of numbers without padding.
        let words = unsafe { std::mem::transmute::<Registers, [u64; WORDS]>(*registers) };
        let buffer = self.scratch + 16;
        self.put(&[&[buffer, 8 * WORDS as u64][..], &words].concat())?;
        let scratch = self.scratch;
        self.request(libc::PTRACE_SETREGSET, libc::NT_PRSTATUS as u64, scratch)
    }

    pub(super) fn mask(&mut self) -> io::Result<u64> {
        let scratch = self.scratch;
        self.request(super::ptrace::PTRACE_GETSIGMASK, 8, scratch)?;
        Ok(self.take::<1>()?[0] as u64)
    }

    pub(super) fn set_mask(&mut self, mask: u64) -> io::Result<()> {
        self.put(&[mask])?;
        let scratch = self.scratch;
        self.request(super::ptrace::PTRACE_SETSIGMASK, 8, scratch)
    }

    pub(super) fn poke(&mut self, address: u64, word: u64) -> io::Result<()> {
        self.request(libc::PTRACE_POKEDATA, address, word)
    }

    /// Returns the signal and the code of the tracee's stop.
    pub(crate) fn reason(&mut self) -> io::Result<(i32, i32)> {
        let scratch = self.scratch;
        self.request(libc::PTRACE_GETSIGINFO, 0, scratch)?;
        let words: [i64; 2] = self.take()?;
        Ok((words[0] as i32, words[1] as i32))
    }

    /// Single-steps the tracee, and waits for its next stop.
    pub(super) fn step(&mut self) -> io::Result<Stop> {
        self.request(libc::PTRACE_SINGLESTEP, 0, 0)?;
        let by_number = libc::P_PID as u64;
        let any = (libc::WEXITED | libc::WSTOPPED | libc::__WALL) as u64;
        let (target, scratch) = (self.target(), self.scratch);
        loop {
            // The debugger must be able to reap the tracee's end, so it is not reaped here.
            let peek = any | libc::WNOWAIT as u64;
            let args = [by_number, target, scratch, peek, 0, 0];
            match self.call(libc::SYS_waitid, args) {
                Err(error) if is_to_be_repeated(&error) => continue,
                other => other?,
            };
            let [_, code, _, status] = self.change()?;
            if !matches!(code, libc::CLD_TRAPPED | libc::CLD_STOPPED) {
                return Ok(Stop::Gone);
            }
            let stopped = (libc::WSTOPPED | libc::__WALL | libc::WNOHANG) as u64;
            self.call(
                libc::SYS_waitid,
                [by_number, target, scratch, stopped, 0, 0],
            )?;
            return Ok(match status >> 8 {
                libc::PTRACE_EVENT_EXEC => Stop::Exec,
                libc::PTRACE_EVENT_STOP => Stop::Interrupted,
                _ => Stop::Signal(status & 0x7f),
            });
        }
    }

    /// Returns the signal, code, process and status that `waitid` has written.
    fn change(&self) -> io::Result<[i32; 4]> {
        // `si_signo`, `si_errno`, `si_code`; `si_pid`, `si_uid`, `si_status`.
        let words: [i64; 4] = self.take()?;
        let [first, second, third, fourth] = words;
        Ok([first as i32, second as i32, third as i32, fourth as i32])
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        let at = arch::instruction(&self.base) - arch::SYSCALL.len() as u64;
        let again = arch::calling(&self.base, at, libc::SYS_ptrace, self.args);
        // This fails only if the thread has ended.
        let _ = self.thread.set_registers(&again);
    }
}

/// Returns true if a signal has interrupted the call, so that it must be repeated.
fn is_to_be_repeated(error: &io::Error) -> bool {
    // ERESTARTSYS and similar errors, which only tracers see.
    matches!(error.raw_os_error(), Some(libc::EINTR | 512..=516))
}

const WORDS: usize = size_of::<Registers>() / 8;
/// Size in bytes of the scratch memory for the registers and the vector that describes them; it
/// lies below the red zone.
const SCRATCH: u64 = 128 + 16 + 8 * (WORDS as u64 + 4);

const _: () = assert!(size_of::<Registers>() == 8 * WORDS);
