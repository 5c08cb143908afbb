//! Started program, as its parent sees it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use timeloom_sys::readable::{Pending, Readable};

use crate::error::GuestError;

/// Started program. Dropping this value does not end the program.
#[derive(Debug)]
pub struct Guest {
    child: Arc<Child>,
}

#[derive(Debug)]
struct Child {
    pid: i32,
    pidfd: OwnedFd,
    /// True if the thread that waits for the program's end has handled the end.
    is_settled: AtomicBool,
    /// Exit status in the form that a shell reports. It is stored, since the kernel reports it only
    /// once.
    status: OnceLock<i32>,
}

/// End of a program, as its parent sees it. While this value exists, the parent is still handling
/// the end, and time does not skip.
#[derive(Debug)]
pub struct ProgramEnd {
    /// Status in the form that a shell reports: the exit code, or 128 plus the number of the
    /// signal.
    pub status: i32,
    child: Arc<Child>,
}

impl Drop for ProgramEnd {
    fn drop(&mut self) {
        self.child.is_settled.store(true, Ordering::SeqCst);
    }
}

/// Children of a session for whose end a thread waits.
#[derive(Debug)]
pub(crate) struct Children(Readable<Child>);

impl Children {
    /// Creates an empty collection.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub(crate) fn new() -> Result<Self, GuestError> {
        let failed = GuestError::system("watching the ends of programs");
        Readable::new().map(Self).map_err(failed)
    }

    /// Adds a child.
    ///
    /// # Errors
    /// Fails if the kernel has no memory for this.
    pub(crate) fn add(&mut self, guest: &Guest) -> Result<(), GuestError> {
        let failed = GuestError::system("watching the end of a program");
        self.0.add(&guest.child).map_err(failed)
    }

    /// Returns true if a child has ended and its end is not handled yet. The end of a child without
    /// references counts as handled.
    pub(crate) fn has_unsettled_end(&mut self) -> bool {
        self.0.is_pending(|child| {
            if child.is_settled.load(Ordering::SeqCst) {
                Pending::Never
            } else {
                Pending::Yes
            }
        })
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Child {
    /// Returns a poll entry that is ready when the child has ended.
    fn pollfd(&self) -> libc::pollfd {
        libc::pollfd {
            fd: self.pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }
    }

    /// Reaps the child, which has ended, and returns its status.
    fn reap(&self) -> i32 {
        *self.status.get_or_init(|| {
            let mut status = 0;
            // SAFETY: writes `status`. The process has ended, so this returns; no other thread
            // waits for it.
            let reaped = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
            debug_assert_eq!(reaped, self.pid, "{}", std::io::Error::last_os_error());
            if libc::WIFSIGNALED(status) {
                128 + libc::WTERMSIG(status)
            } else {
                libc::WEXITSTATUS(status)
            }
        })
    }
}

impl Guest {
    /// Creates the value for a child of this process that has not been reaped.
    pub(super) fn child(pid: i32, pidfd: OwnedFd) -> Self {
        Self {
            child: Arc::new(Child {
                pid,
                pidfd,
                is_settled: AtomicBool::new(false),
                status: OnceLock::new(),
            }),
        }
    }

    /// Returns the process identifier of the program.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// Waits for the program's end. Returns the exit status in the form that a shell reports: the
    /// exit code, or 128 plus the number of the signal.
    pub fn wait(&self) -> i32 {
        self.ended().status
    }

    /// Waits like [`Self::wait`], for at most `limit`. Returns `None` if the program still runs
    /// then.
    pub fn wait_for(&self, limit: Option<std::time::Duration>) -> Option<i32> {
        self.ended_within(limit).map(|ended| ended.status)
    }

    /// Waits like [`Self::ended_within`], without a limit. The thread sleeps until the end: with a
    /// thousand programs, polling would cost more than the programs do.
    pub fn ended(&self) -> ProgramEnd {
        self.ended_within(None).expect("waited without limit")
    }

    /// Waits like [`Self::wait_for`]. Time does not skip between the program's end and the drop of
    /// the returned value.
    pub fn ended_within(&self, limit: Option<std::time::Duration>) -> Option<ProgramEnd> {
        // The pidfd is polled first: a plain `waitpid` would also consume the ptrace stops, which
        // belong to the thread that follows an exec.
        let mut ended = self.child.pollfd();
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
        Some(ProgramEnd {
            status: self.child.reap(),
            child: Arc::clone(&self.child),
        })
    }

    /// Sends the program SIGHUP, as when its terminal closes. If it leads a process group, all
    /// processes of the group receive the signal.
    pub(crate) fn hang_up(&self) {
        // SAFETY: no pointers. The number is that of our child, which has not been reaped.
        unsafe { libc::kill(-self.pid(), libc::SIGHUP) };
        self.signal(libc::SIGHUP);
    }

    /// Sends the program a signal.
    pub fn signal(&self, number: i32) {
        // SAFETY: the process is our own child, which is not reaped before `wait`.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.child.pidfd.as_raw_fd(),
                number,
                0,
                0,
            )
        };
    }
}
