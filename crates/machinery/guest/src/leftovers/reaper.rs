//! Reaper: a child process that waits for the supervisor's end, and removes the session's leftovers
//! if that end was not orderly. `ps` shows it as `timeloom-keeper`.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::SendFlags;

use crate::error::{GuestError, check};
use crate::freeze::{Freezer, remove_session};
use crate::linux::descriptor::{receive, send_descriptor, socket_pair};
use crate::linux::processes;
use crate::names::{PageName, socket_path};
use crate::time_files::Connection;

/// Handle of the child process that waits for the supervisor's end.
pub(crate) struct Reaper {
    pid: i32,
    /// Socket to the reaper. The kernel closes it when this process ends in any way.
    line: Option<OwnedFd>,
}

impl Reaper {
    pub(crate) fn start(
        session: &str,
        freezer: &Freezer,
        page: PageName,
    ) -> Result<Self, GuestError> {
        let cgroup = freezer.cgroup().map(Path::to_owned);
        let socket = socket_path(session);
        let (theirs, ours) = socket_pair()?;
        // SAFETY: the child uses only data that exists already; glibc makes its allocator usable in
        // the child of a process with threads.
        let pid = check(unsafe { libc::fork() }.into(), "forking the reaper")? as i32;
        if pid == 0 {
            drop(ours);
            wait_and_reap(&theirs, cgroup.as_deref(), &socket, &page);
        }
        Ok(Self {
            pid,
            line: Some(ours),
        })
    }

    /// Passes a mount to the reaper, which ends its file system after a disorderly end of the
    /// supervisor. The reaper does so even if another process has inherited the file system's
    /// device.
    pub(crate) fn will_end(&self, mount: BorrowedFd<'_>) {
        if let Some(line) = &self.line {
            send_descriptor(line.as_fd(), mount);
        }
    }

    /// Informs the reaper of an orderly end: there is nothing left to remove. Waits until the
    /// reaper has ended.
    pub(crate) fn dismiss(&mut self) {
        if let Some(line) = self.line.take() {
            // A reaper that was killed needs no message.
            let _ = rustix::net::send(&line, &[ORDERLY], SendFlags::NOSIGNAL);
            drop(line);
            // SAFETY: the process is our own child.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL) };
        }
    }
}

impl Drop for Reaper {
    /// Dismisses the reaper. This also applies to a session whose creation failed: the reaper must
    /// not take its supervisor for one of its programs.
    fn drop(&mut self) {
        self.dismiss();
    }
}

fn wait_and_reap(line: &OwnedFd, cgroup: Option<&Path>, socket: &Path, page: &PageName) -> ! {
    // In its own session, the reaper is not affected by Ctrl-C on a terminal.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"timeloom-keeper");
    let number = line.as_raw_fd();
    // SAFETY: the calls access no memory. Inherited descriptors must not keep pipes of other
    // processes open.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, number - 1, 0);
        libc::syscall(libc::SYS_close_range, number + 1, u32::MAX, 0);
    }
    let (orderly, mounts) = listen(line);
    if !orderly {
        // File systems are ended first: a process that waits for an answer of the dead supervisor
        // cannot be killed.
        for mount in mounts {
            let _ = Connection::of(mount.as_fd()).and_then(Connection::abort);
        }
        for pid in page.mapped_by() {
            // The program belongs to the session whose supervisor has died.
            processes::kill_if(pid, |pid| page.is_page_of(pid));
        }
        if let Some(cgroup) = cgroup {
            remove_session(cgroup);
        }
        let _ = fs::remove_file(socket);
    }
    // SAFETY: the call ends the child without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Waits for the supervisor's end. Returns true if it was orderly, and the mounts received until
/// then. (As long as the mounts are held, the kernel does not reuse the numbers of their
/// connections.)
fn listen(line: &OwnedFd) -> (bool, Vec<OwnedFd>) {
    let mut mounts = Vec::new();
    while let Some((byte, mount)) = receive(line) {
        if byte == ORDERLY {
            return (true, mounts);
        }
        mounts.extend(mount);
    }
    (false, mounts)
}

/// Message that the supervisor sends before an orderly end.
const ORDERLY: u8 = b'q';
