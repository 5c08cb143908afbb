//! Waking threads whose wait has become too long.
//!
//! A guest's timed wait sits in the kernel with a timeout that was right for
//! the rate at which it began. When the clock is made to run faster, the
//! timeout is too long. So after a change of rate every thread that stands in
//! the image's one waiting instruction is sent SIGSYS; the image's handler
//! makes it compute its timeout anew.
//!
//! To be called while all threads are stopped: what /proc says of a thread is
//! then still true when the signal arrives, and no thread is interrupted in a
//! system call of the program's own.

use std::ops::RangeInclusive;

use timeloom_calls::KICK_CODE;

use crate::linux::pidfd::Pidfd;
use crate::linux::processes;
use crate::linux::spare::with_spare;
use crate::supervise::thread_state::ThreadState;

/// Kicks the waiting threads of these (stopped) processes.
pub(crate) fn kick_waiting(pids: &[i32], wait: &RangeInclusive<u64>) -> usize {
    let mut kicked = 0;
    for &pid in pids {
        for thread in processes::threads(pid) {
            let Some(held) = Held::new(pid, thread) else {
                continue;
            };
            if stands_in_wait(pid, thread, wait) {
                held.kick();
                kicked += 1;
            }
        }
    }
    kicked
}

/// Makes a thread that sleeps in a wait recompute its timeout. The caller has just found it asleep,
/// and part of a guest.
pub(crate) fn kick_asleep(pid: i32, thread: i32) {
    if let Some(held) = Held::new(pid, thread) {
        held.kick();
    }
}

/// A thread that may be kicked: that one, and no later one of its number.
pub(crate) struct Held {
    pid: i32,
    thread: i32,
    /// Of the thread; before Linux 6.9 of its process.
    by: Pidfd,
    is_thread: bool,
}

impl Held {
    /// To be held before it is looked at whose it is. None, if it is gone.
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

    /// Makes it compute its timeout anew, if it waits. The image tells a kick from a
    /// SIGSYS of the program's own by what it carries.
    pub(crate) fn kick(&self) {
        // SAFETY: plain data.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = libc::SIGSYS;
        info.si_code = KICK_CODE;
        if self.is_thread {
            // One that has ended waits for nothing.
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

/// Whether a stopped thread is about to make the waiting call, or in it.
///
/// Behind the call but not in it stands a thread whose wait is over. One that has
/// just returned there from a handler of the program looks to our handler like
/// one that the kick has interrupted, and would lose its EINTR.
fn stands_in_wait(pid: i32, thread: i32, wait: &RangeInclusive<u64>) -> bool {
    ThreadState::of_stopped(pid, thread).is_some_and(|state| state.is_waiting(wait))
}
