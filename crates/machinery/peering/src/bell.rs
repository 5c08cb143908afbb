//! Waking a thread that may have gone to sleep, with a system call only if it has.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::flag::Flag;

/// What one thread sleeps on, and others ring.
#[derive(Debug)]
pub(crate) struct Bell {
    flag: Flag,
    event: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            flag: Flag::new(),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    pub(crate) fn doze(&self) {
        self.flag.doze();
    }

    /// The sleeper is up; what rang is taken in. One that rings just behind this
    /// makes the next sleep end at once, which costs one look.
    pub(crate) fn wake(&self) {
        self.flag.wake();
        // It is refused only when nobody has rung.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }

    /// Wakes the sleeper if there is one.
    pub(crate) fn ring(&self) {
        if self.flag.take() {
            // It is refused only when the count is about to overflow, and then the
            // sleeper is awake anyway.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
