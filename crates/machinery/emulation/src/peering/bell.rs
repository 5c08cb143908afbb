//! Wakes a thread that may be asleep, and makes a system call only if the thread is asleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::peering::flag::Flag;

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

    /// Marks the sleeping thread as awake and consumes pending signals. A signal that arrives just
    /// afterwards ends the thread's next sleep at once, which costs one unneeded check for input.
    pub(crate) fn wake(&self) {
        self.flag.wake();
        // The read fails only if there was no signal.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }

    /// Wakes the thread that sleeps on this event, if there is one.
    pub(crate) fn ring(&self) {
        if self.flag.take() {
            // The write fails only if the counter is about to overflow; then the thread is awake
            // anyway.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
