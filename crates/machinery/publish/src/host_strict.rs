//! Strictly increasing readings for a whole host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use timeloom_clock::counter::{SharedStrict, StrictTime};
use timeloom_time::{Instant, Scale};

use crate::memory::Mapping;

/// Word of shared memory by which all processes that have its descriptor get distinct readings.
///
/// It is not part of the clock page, which its readers cannot write: any process that shares this
/// word can push it into the future for all others. It is for processes that trust each other.
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

const _: () = assert!(size_of::<Word>() == crate::PAGE_SIZE);

impl HostStrict {
    /// Creates a new word; pass [`Self::fd`] to the other processes.
    ///
    /// # Errors
    /// Fails if the system refuses.
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
    /// Fails if it is not as long as the word's page, or cannot be mapped.
    pub fn open(fd: OwnedFd) -> std::io::Result<Self> {
        if rustix::fs::fstat(&fd)?.st_size as usize != size_of::<Word>() {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            word: Mapping::new(&fd, true)?,
            fd,
        })
    }

    /// Returns the descriptor to pass on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns `now`, or one nanosecond after the last reading of any process. A new word starts at
    /// 0: instants before the scale's zero become 1, 2, 3 …
    pub fn next<S: Scale>(&self, now: Instant<S>) -> StrictTime<S> {
        self.word.get().last.next(now)
    }
}
