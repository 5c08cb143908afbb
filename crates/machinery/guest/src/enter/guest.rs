//! Started program, as seen by its parent.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Started program. Dropping this does not end it.
#[derive(Debug)]
pub struct Guest {
    child: Arc<Child>,
}

#[derive(Debug)]
struct Child {
    pid: i32,
    pidfd: OwnedFd,
    /// True if the thread waiting for its end has handled the end.
    is_settled: AtomicBool,
    /// Exit status as a shell reports it, kept since the kernel reports it only once.
    status: OnceLock<i32>,
}

/// End of a program, as seen by its parent. While this is kept, the parent is still handling the
/// end, and time does not skip.
#[derive(Debug)]
pub struct Ended {
    /// Status as a shell reports it: the code, or 128 + the signal's number.
    pub status: i32,
    child: Arc<Child>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.child.is_settled.store(true, Ordering::SeqCst);
    }
}

/// Children of a session with a thread waiting for their end.
#[derive(Debug, Default)]
pub(crate) struct Children(Vec<Weak<Child>>);

impl Children {
    pub(crate) fn add(&mut self, guest: &Guest) {
        self.0.push(Arc::downgrade(&guest.child));
    }

    /// Returns true if a child has ended whose end is not settled yet. The end of a child without
    /// references is considered settled.
    pub(crate) fn has_unsettled_end(&mut self) -> bool {
        self.0.retain(|child| {
            let child = child.upgrade();
            child.is_some_and(|child| !child.is_settled.load(Ordering::SeqCst))
        });
        let children: Vec<Arc<Child>> = self.0.iter().filter_map(Weak::upgrade).collect();
        let mut ends: Vec<_> = children.iter().map(|child| child.pollfd()).collect();
        let count = ends.len() as libc::nfds_t;
        // SAFETY: this number of entries, ours, without waiting.
        unsafe { libc::poll(ends.as_mut_ptr(), count, 0) != 0 }
    }
}

impl Child {
    /// Returns the entry to poll for its end.
    fn pollfd(&self) -> libc::pollfd {
        libc::pollfd {
            fd: self.pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }
    }

    /// Returns the status of the ended child.
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
    /// Makes the value for a child of ours that has not been waited for.
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

    /// Returns the process identifier.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// Waits for its end. Returns the exit status as a shell reports it: the
    /// code, or 128 + the signal's number.
    pub fn wait(&self) -> i32 {
        self.ended().status
    }

    /// Waits like [`Self::wait`], for at most `limit`; returns `None` if it still runs.
    pub fn wait_for(&self, limit: Option<std::time::Duration>) -> Option<i32> {
        self.ended_within(limit).map(|ended| ended.status)
    }

    /// Waits like [`Self::ended_within`], without a limit. The waiting thread sleeps until then:
    /// with a thousand programs, polling would cost more than the programs do.
    pub fn ended(&self) -> Ended {
        self.ended_within(None).expect("waited without limit")
    }

    /// Waits like [`Self::wait_for`]; time does not skip between the program's end and the drop of
    /// the returned value.
    pub fn ended_within(&self, limit: Option<std::time::Duration>) -> Option<Ended> {
        // The pidfd first: a plain `waitpid` would also take the ptrace stops that belong to the
        // thread which follows an exec.
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
        Some(Ended {
            status: self.child.reap(),
            child: Arc::clone(&self.child),
        })
    }

    /// Sends it a hangup, as when its terminal closes, and to all processes in its process group if
    /// it is the leader.
    pub(crate) fn hang_up(&self) {
        // SAFETY: no pointers. The number is our child's: it has not been waited for.
        unsafe { libc::kill(-self.pid(), libc::SIGHUP) };
        self.signal(libc::SIGHUP);
    }

    /// Sends a signal.
    pub fn signal(&self, number: i32) {
        // SAFETY: our own child, not reaped before `wait`.
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
