//! Waking a thread that may have gone to sleep, with a system call only if it has.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::flag::Flag;

/// What one thread sleeps on, and others ring.
#[derive(Debug)]
pub(crate) struct Bell {
    flag: Flag,
    event: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes two numbers.
        let event = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            flag: Flag::new(),
            // SAFETY: the kernel has just given it to us, and nobody else has it.
            event: unsafe { OwnedFd::from_raw_fd(event) },
        })
    }

    pub(crate) fn doze(&self) {
        self.flag.doze();
    }

    /// The sleeper is up; what rang is taken in. One that rings just behind this
    /// makes the next sleep end at once, which costs one look.
    pub(crate) fn wake(&self) {
        self.flag.wake();
        let mut count = [0u8; 8];
        // SAFETY: the buffer has the eight bytes that an eventfd fills.
        unsafe { libc::read(self.descriptor(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// Wakes the sleeper if there is one.
    pub(crate) fn ring(&self) {
        if self.flag.take() {
            let once = 1u64.to_ne_bytes();
            // SAFETY: the kernel reads eight bytes. It refuses them only when the
            // count is about to overflow, and then the sleeper is awake anyway.
            unsafe { libc::write(self.descriptor(), once.as_ptr().cast(), once.len()) };
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}
