//! Strictly increasing readings across all processes of a host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use timeloom_clock::counter::{SharedStrict, StrictTime};
use timeloom_time::{Instant, Scale};

use crate::shm::memory::Mapping;

/// Word of shared memory through which all processes that share it get distinct readings.
/// The word is not part of the clock page, because readers cannot write to that page. Any process
/// that shares the word can advance it into the future for all others, so the processes must trust
/// each other.
#[derive(Debug)]
pub struct HostStrict {
    word: Mapping<Word>,
    fd: OwnedFd,
}

/// Page that contains the word.
#[repr(C, align(4096))]
#[derive(Debug)]
struct Word {
    last: SharedStrict,
    rest: [core::sync::atomic::AtomicU64; 511],
}

const _: () = assert!(size_of::<Word>() == crate::shm::PAGE_SIZE);

impl HostStrict {
    /// Creates a new word. Other processes open it by the descriptor that [`Self::fd`] returns.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn create() -> std::io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("timeloom-strict", flags)?;
        rustix::fs::ftruncate(&fd, size_of::<Word>() as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        Self::open(fd)
    }

    /// Opens the word by a descriptor from another process.
    ///
    /// # Errors
    /// Fails if the file does not have the length of one page, or cannot be mapped.
    pub fn open(fd: OwnedFd) -> std::io::Result<Self> {
        if rustix::fs::fstat(&fd)?.st_size as usize != size_of::<Word>() {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            word: Mapping::new(&fd, true)?,
            fd,
        })
    }

    /// Returns the descriptor to pass to other processes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns `now`, or the instant one nanosecond after the last reading of any process if that
    /// is later. A new word starts at 0, so instants before the scale's zero become 1, 2, 3 …
    pub fn next<S: Scale>(&self, now: Instant<S>) -> StrictTime<S> {
        self.word.get().last.next(now)
    }
}
