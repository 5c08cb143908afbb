//! A page that busy workers and their commander share.
//!
//! A worker that spins cannot be asked over a socket without changing what is
//! measured. So it looks at a *generation* in shared memory; when that has
//! changed, it notes when it saw it first.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Most workers that fit.
pub(crate) const SLOTS: usize = 64;

/// The shared page's content. Zeroed to begin with.
#[repr(C)]
pub(crate) struct Board {
    /// Raised by the commander.
    pub(crate) generation: AtomicU32,
    /// One per worker, each in a cache line of its own.
    pub(crate) slots: [Slot; SLOTS],
}

/// What a worker tells.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// The counter when it first saw `generation`.
    pub(crate) ticks: AtomicU64,
    /// The generation that it saw last.
    pub(crate) generation: AtomicU32,
}

/// A mapping of a [`Board`].
pub(crate) struct SharedBoard(*mut Board);

impl SharedBoard {
    /// A new file with a board.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_len(size_of::<Board>() as u64)?;
        Self::map(&file)
    }

    /// The board in a file that [`create`](Self::create) made.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Self::map(&file)
    }

    fn map(file: &File) -> io::Result<Self> {
        let (length, protection) = (size_of::<Board>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new shared mapping of a file of that size.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(Self(address.cast()))
    }

    pub(crate) fn board(&self) -> &Board {
        // SAFETY: mapped for as long as `self`, page-aligned, all atomics.
        unsafe { &*self.0 }
    }
}

impl Drop for SharedBoard {
    fn drop(&mut self) {
        // SAFETY: our own mapping; `board()` borrows from `self`.
        let _ = unsafe { munmap(self.0.cast(), size_of::<Board>()) };
    }
}
