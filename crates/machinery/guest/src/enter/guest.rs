//! A program that was started, as its parent has it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::error::{GuestError, check};

/// A program that was started. Dropping it does not end it.
#[derive(Debug)]
pub struct Guest {
    pid: i32,
    pidfd: OwnedFd,
}

impl Guest {
    /// A child of ours that has not been waited for.
    pub(super) fn child(pid: i32) -> Result<Self, GuestError> {
        // SAFETY: no pointers. The child exists, if only as a zombie.
        let pidfd = check(
            unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) },
            "opening a pidfd",
        )?;
        Ok(Self {
            pid,
            // SAFETY: just created and owned by nobody else.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd as RawFd) },
        })
    }

    /// Process identifier.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for its end. Returns the exit status as a shell reports it: the
    /// code, or 128 + the signal's number.
    pub fn wait(&self) -> i32 {
        self.wait_for(None).expect("waited without limit")
    }

    /// As [`Self::wait`], for at most `limit`; `None` when it still runs.
    pub fn wait_for(&self, limit: Option<std::time::Duration>) -> Option<i32> {
        // The pidfd first: a plain `waitpid` would also take the ptrace stops
        // that belong to the thread which follows an exec.
        let mut ended = libc::pollfd {
            fd: self.pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let begun = std::time::Instant::now();
        loop {
            let left = limit.map_or(-1, |limit| {
                limit
                    .saturating_sub(begun.elapsed())
                    .as_millis()
                    .min(1 << 30) as i32
            });
            // SAFETY: one pollfd, ours.
            let ready = unsafe { libc::poll(&raw mut ended, 1, left) };
            match ready {
                1 => break,
                0 => return None,
                _ => {} // interrupted by a signal of ours
            }
        }
        let mut status = 0;
        // SAFETY: writes `status`. The process has ended, so this returns.
        let result = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
        if result != self.pid {
            // Reaped already by an earlier call.
            return Some(0);
        }
        Some(if libc::WIFSIGNALED(status) {
            128 + libc::WTERMSIG(status)
        } else {
            libc::WEXITSTATUS(status)
        })
    }

    /// Sends a signal.
    pub fn signal(&self, number: i32) {
        // SAFETY: our own child, not reaped before `wait`.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.pidfd.as_raw_fd(),
                number,
                0,
                0,
            )
        };
    }
}
