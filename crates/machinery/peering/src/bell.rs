//! Wakes a thread that may be asleep; makes a system call only if it is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::flag::Flag;

/// Event on which one thread sleeps and which others signal.
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

    /// Marks the sleeper as awake and consumes pending signals. A signal sent just afterwards ends
    /// the next sleep at once, at the cost of one check.
    pub(crate) fn wake(&self) {
        self.flag.wake();
        // Fails only if there was no signal.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }

    /// Wakes the sleeping thread, if any.
    pub(crate) fn ring(&self) {
        if self.flag.take() {
            // Fails only if the counter is about to overflow; then the thread is awake anyway.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
