//! A program that was started, as its parent has it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A program that was started. Dropping it does not end it.
#[derive(Debug)]
pub struct Guest {
    child: Arc<Child>,
}

#[derive(Debug)]
struct Child {
    pid: i32,
    pidfd: OwnedFd,
    /// Whoever waits for it knows of its end, and has done what follows from it.
    is_settled: AtomicBool,
    /// How it ended, since the kernel says so once. As a shell reports it.
    status: OnceLock<i32>,
}

/// The end of a program, as its parent has it. While this is kept, the parent is still
/// at work on it, and time does not skip.
#[derive(Debug)]
pub struct Ended {
    /// As a shell reports it: the code, or 128 + the signal's number.
    pub status: i32,
    child: Arc<Child>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.child.is_settled.store(true, Ordering::SeqCst);
    }
}

/// The children of a session whose ends somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Children(Vec<Weak<Child>>);

impl Children {
    pub(crate) fn add(&mut self, guest: &Guest) {
        self.0.push(Arc::downgrade(&guest.child));
    }

    /// Whether one has ended whose end is not settled yet. One that nobody keeps any
    /// more has nobody to settle its end.
    pub(crate) fn has_unsettled_end(&mut self) -> bool {
        self.0.retain(|child| {
            let child = child.upgrade();
            child.is_some_and(|child| !child.is_settled.load(Ordering::SeqCst))
        });
        let children: Vec<Arc<Child>> = self.0.iter().filter_map(Weak::upgrade).collect();
        let mut ends: Vec<_> = children.iter().map(|child| child.pollfd()).collect();
        let count = ends.len() as libc::nfds_t;
        // SAFETY: so many entries, ours; it does not wait.
        unsafe { libc::poll(ends.as_mut_ptr(), count, 0) != 0 }
    }
}

impl Child {
    /// To be told of its end.
    fn pollfd(&self) -> libc::pollfd {
        libc::pollfd {
            fd: self.pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }
    }

    /// Its status. It has ended.
    fn reap(&self) -> i32 {
        *self.status.get_or_init(|| {
            let mut status = 0;
            // SAFETY: writes `status`. The process has ended, so this returns; nobody else
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
    /// A child of ours that has not been waited for.
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

    /// Process identifier.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// Waits for its end. Returns the exit status as a shell reports it: the
    /// code, or 128 + the signal's number.
    pub fn wait(&self) -> i32 {
        self.ended().status
    }

    /// As [`Self::wait`], for at most `limit`; `None` when it still runs.
    pub fn wait_for(&self, limit: Option<std::time::Duration>) -> Option<i32> {
        self.ended_within(limit).map(|ended| ended.status)
    }

    /// As [`Self::ended_within`], without a limit. The waiting thread sleeps until then:
    /// where a thousand programs run, looking now and then would cost more than they do.
    pub fn ended(&self) -> Ended {
        self.ended_within(None).expect("waited without limit")
    }

    /// As [`Self::wait_for`]; time does not skip between the program's end and the
    /// instant at which the caller lets go of what it gets.
    pub fn ended_within(&self, limit: Option<std::time::Duration>) -> Option<Ended> {
        // The pidfd first: a plain `waitpid` would also take the ptrace stops
        // that belong to the thread which follows an exec.
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

    /// Tells it, and all in its process group if it leads one, that its terminal is gone.
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
