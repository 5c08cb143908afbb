//! Processes and threads referenced by a descriptor. The kernel may reuse a process identifier
//! before it is used; a descriptor always refers to the same process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::descriptor::is_readable;

/// Reference to a process or thread that remains valid when the kernel reuses its identifier.
#[derive(Debug)]
pub(crate) struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens the process that has this identifier now.
    ///
    /// # Errors
    /// Fails with ESRCH if there is no such process, and if no descriptor is left.
    pub(crate) fn of_process(pid: i32) -> io::Result<Self> {
        Self::open(pid, PidfdFlags::empty())
    }

    /// Opens the thread that has this identifier now.
    ///
    /// # Errors
    /// Fails like [`Self::of_process`], and with EINVAL before Linux 6.9.
    pub(crate) fn of_thread(thread: i32) -> io::Result<Self> {
        Self::open(thread, PIDFD_THREAD)
    }

    fn open(number: i32, flags: PidfdFlags) -> io::Result<Self> {
        let number = Pid::from_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(pidfd_open(number, flags)?))
    }

    /// Returns true if the process or thread has ended, even if it was not reaped yet.
    pub(crate) fn has_ended(&self) -> bool {
        is_readable(&self.0)
    }

    /// Returns a duplicate of a descriptor of the process.
    ///
    /// # Errors
    /// Fails with EBADF if the process has no such descriptor, with EPERM if this process may not
    /// trace it.
    pub(crate) fn duplicate(&self, descriptor: i32) -> io::Result<OwnedFd> {
        Ok(pidfd_getfd(&self.0, descriptor, PidfdGetfdFlags::empty())?)
    }

    /// Sends a signal with this information. If the descriptor refers to a thread, the signal is
    /// sent to that thread, otherwise to the process.
    ///
    /// # Errors
    /// Fails with ESRCH if the receiver has ended, and with EAGAIN if its user has too many signals
    /// queued.
    pub(crate) fn signal(&self, number: i32, info: &libc::siginfo_t) -> io::Result<()> {
        self.send_with(number, std::ptr::from_ref(info))
    }

    /// Sends a signal without information, like `kill`.
    ///
    /// # Errors
    /// Fails with ESRCH if the receiver has ended, and with EPERM if it now belongs to another
    /// user.
    pub(crate) fn send(&self, number: i32) -> io::Result<()> {
        self.send_with(number, std::ptr::null())
    }

    fn send_with(&self, number: i32, info: *const libc::siginfo_t) -> io::Result<()> {
        // SAFETY: the kernel reads a whole `siginfo_t`, or nothing if the pointer is null.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                number,
                info,
                0,
            )
        };
        if sent == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// PIDFD_THREAD of <linux/pidfd.h>.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_process_gets_no_signal() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .expect("a process");
        let held = Pidfd::of_process(child.id() as i32).expect("there it is");
        assert!(!held.has_ended());
        // SAFETY: plain data.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = libc::SIGKILL;
        info.si_code = libc::SI_QUEUE;
        held.signal(libc::SIGKILL, &info).expect("it lives");
        child.wait().expect("our own child");
        assert!(held.has_ended());
        let gone = held.signal(libc::SIGKILL, &info).expect_err("it has ended");
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }
}
