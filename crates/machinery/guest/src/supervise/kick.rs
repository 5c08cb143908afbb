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

use crate::linux::processes;
use crate::supervise::thread_state::ThreadState;

/// Kicks the waiting threads of these (stopped) processes.
pub(crate) fn kick_waiting(pids: &[i32], wait: &RangeInclusive<u64>) -> usize {
    let mut kicked = 0;
    for &pid in pids {
        for thread in processes::threads(pid) {
            if stands_in_wait(pid, thread, wait) {
                kick(pid, thread);
                kicked += 1;
            }
        }
    }
    kicked
}

/// Makes a thread that waits compute its timeout anew. The image tells a kick from a
/// SIGSYS of the program's own by what it carries.
pub(crate) fn kick(pid: i32, thread: i32) {
    // SAFETY: plain data.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    info.si_signo = libc::SIGSYS;
    info.si_code = KICK_CODE;
    let info = &raw const info;
    // SAFETY: a thread of our own session; the kernel reads a whole `siginfo_t`.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, thread, libc::SIGSYS, info) };
}

/// Whether a stopped thread is about to make the waiting call, or in it.
///
/// Behind the call but not in it stands a thread whose wait is over. One that has
/// just returned there from a handler of the program looks to our handler like
/// one that the kick has interrupted, and would lose its EINTR.
fn stands_in_wait(pid: i32, thread: i32, wait: &RangeInclusive<u64>) -> bool {
    ThreadState::of_stopped(pid, thread).is_some_and(|state| state.is_waiting(wait))
}
