//! The child that waits for the supervisor's end, and removes what is left of its
//! session when that end was not an orderly one. `ps` shows it as `timeloom-keeper`.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use crate::error::{GuestError, check};
use crate::freeze::{Freezer, remove_cgroup};
use crate::names::{PageName, socket_path};

/// The child that waits for the supervisor's end.
pub(crate) struct Reaper {
    pid: i32,
    /// Closed by the kernel when we die, however we die.
    line: Option<fs::File>,
}

impl Reaper {
    pub(crate) fn start(
        session: &str,
        freezer: &Freezer,
        page: PageName,
    ) -> Result<Self, GuestError> {
        let cgroup = freezer.cgroup().map(Path::to_owned);
        let socket = socket_path(session);
        let mut fds = [0; 2];
        check(
            // SAFETY: writes two descriptors.
            unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into(),
            "making a pipe",
        )?;
        // SAFETY: just created and owned by nobody else.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        // SAFETY: the child uses what exists already; glibc makes its
        // allocator usable in the child of a process with threads.
        let pid = check(unsafe { libc::fork() }.into(), "forking the reaper")? as i32;
        if pid == 0 {
            drop(write);
            wait_and_reap(read.into(), cgroup.as_deref(), &socket, &page);
        }
        Ok(Self {
            pid,
            line: Some(write.into()),
        })
    }

    /// An orderly end: there is nothing left to remove.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut line) = self.line.take() {
            let _ = line.write_all(b"q");
            drop(line);
            // SAFETY: our own child.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL) };
        }
    }
}

impl Drop for Reaper {
    /// A session that could not be made leaves nothing either, and the reaper
    /// must not take its supervisor for one of its programs.
    fn drop(&mut self) {
        self.dismiss();
    }
}

fn wait_and_reap(mut line: fs::File, cgroup: Option<&Path>, socket: &Path, page: &PageName) -> ! {
    // SAFETY: calls without memory; a terminal's Ctrl-C is not for us, and
    // descriptors of ours must not keep others' pipes open.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"timeloom-keeper".as_ptr());
        let own = std::os::fd::AsRawFd::as_raw_fd(&line) as u32;
        libc::syscall(libc::SYS_close_range, 0, own - 1, 0);
        libc::syscall(libc::SYS_close_range, own + 1, u32::MAX, 0);
    }
    let mut word = [0u8; 1];
    let orderly = matches!(line.read(&mut word), Ok(1));
    if !orderly {
        for pid in page.mapped_by() {
            // SAFETY: a program of the session whose supervisor has died.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        if let Some(cgroup) = cgroup {
            remove_cgroup(cgroup);
        }
        let _ = fs::remove_file(socket);
    }
    // SAFETY: ends the child without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}
