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

use std::fs;
use std::ops::RangeInclusive;

use crate::processes;

/// Kicks the waiting threads of these (stopped) processes.
pub(crate) fn kick_waiting(pids: &[i32], wait: &RangeInclusive<u64>) -> usize {
    let mut kicked = 0;
    for &pid in pids {
        for thread in processes::threads(pid) {
            if instruction_pointer(pid, thread).is_some_and(|at| wait.contains(&at)) {
                // SAFETY: a thread of our own session.
                unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, libc::SIGSYS) };
                kicked += 1;
            }
        }
    }
    kicked
}

/// Where a stopped thread stands in user space: the last field of
/// /proc/PID/task/TID/syscall.
fn instruction_pointer(pid: i32, thread: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).ok()?;
    let field = text.split_ascii_whitespace().next_back()?;
    u64::from_str_radix(field.strip_prefix("0x")?, 16).ok()
}
