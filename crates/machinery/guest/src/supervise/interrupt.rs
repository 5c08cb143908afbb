//! Interruption of threads whose timeout in the kernel has become too long.
//!
//! A guest's timed wait sleeps in the kernel with a timeout computed from the clock's rate at its
//! beginning. When the clock is made faster, that timeout is too long. So after a change of the
//! rate the supervisor sends SIGSYS to every thread that is in the image's single waiting
//! instruction; the image's handler makes the thread recompute its timeout.
//!
//! To be called while all threads are stopped. The state of a thread in /proc is then still
//! valid when the signal arrives, and no thread is interrupted in a system call of the program
//! itself.

use std::ops::RangeInclusive;

use timeloom_abi::calls::INTERRUPT_CODE;

use crate::linux::pidfd::Pidfd;
use crate::linux::processes;
use crate::linux::spare::with_spare;
use crate::supervise::thread_state::ThreadState;

/// Interrupts the waiting threads of these processes, which must be stopped. Returns the number of
/// threads.
pub(crate) fn interrupt_waiting(pids: &[i32], wait: &RangeInclusive<u64>) -> usize {
    let mut interrupted = 0;
    for &pid in pids {
        for thread in processes::threads(pid) {
            let Some(target) = InterruptTarget::new(pid, thread) else {
                continue;
            };
            if stands_in_wait(pid, thread, wait) {
                target.interrupt();
                interrupted += 1;
            }
        }
    }
    interrupted
}

/// Makes a thread that sleeps in a wait recompute its timeout. The caller must have just found that
/// the thread sleeps and belongs to a guest.
pub(crate) fn interrupt_asleep(pid: i32, thread: i32) {
    if let Some(target) = InterruptTarget::new(pid, thread) {
        target.interrupt();
    }
}

/// Thread to interrupt. It is referenced by a descriptor, so that a later thread with the same
/// identifier is not interrupted.
pub(crate) struct InterruptTarget {
    pid: i32,
    thread: i32,
    /// Descriptor of the thread; before Linux 6.9 that of its process.
    by: Pidfd,
    is_thread: bool,
}

impl InterruptTarget {
    /// Opens the thread. The caller must then check its process. Returns `None` if the thread has
    /// ended.
    pub(crate) fn new(pid: i32, thread: i32) -> Option<Self> {
        let by = match with_spare(|| Pidfd::of_thread(thread)) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
            other => Some(other.ok()?),
        };
        let is_thread = by.is_some();
        let by = match by {
            Some(by) => by,
            None => with_spare(|| Pidfd::of_process(pid)).ok()?,
        };
        Some(Self {
            pid,
            thread,
            by,
            is_thread,
        })
    }

    /// Makes the thread recompute its timeout if it waits. The image distinguishes an interrupt
    /// from a SIGSYS of the program by the data of the signal.
    pub(crate) fn interrupt(&self) {
        // SAFETY: plain data.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = libc::SIGSYS;
        info.si_code = INTERRUPT_CODE;
        if self.is_thread {
            // Errors are ignored: a thread that has ended waits for nothing.
            let _ = self.by.signal(libc::SIGSYS, &info);
        } else if !self.by.has_ended() {
            let info = &raw const info;
            // SAFETY: the kernel reads a whole `siginfo_t`.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_tgsigqueueinfo,
                    self.pid,
                    self.thread,
                    libc::SIGSYS,
                    info,
                )
            };
        }
    }
}

/// Returns true if a stopped thread is in the waiting call, or about to make it.
///
/// If the thread's instruction pointer is after the call but the thread is not in the call, the
/// wait has ended. If such a thread has just returned there from a handler of the program, an
/// interrupt would make it lose its EINTR: the image's handler would assume that the interrupt has
/// interrupted it.
fn stands_in_wait(pid: i32, thread: i32, wait: &RangeInclusive<u64>) -> bool {
    ThreadState::of_stopped(pid, thread).is_some_and(|state| state.is_waiting(wait))
}
