//! Memory that a measured process and its controller share: a file that both map.
//!
//! A command over a socket would disturb the measurement of a spinning worker. The worker therefore
//! polls a *generation* in shared memory, and records when it first saw a change.

use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Maximum number of workers.
pub(crate) const SLOTS: usize = 64;

/// Memory that spinning workers poll; initially zero.
#[repr(C)]
pub(crate) struct Board {
    /// Generation, which the controller increments.
    pub(crate) generation: AtomicU32,
    /// Reports of the workers, each in its own cache line.
    pub(crate) slots: [Slot; SLOTS],
}

/// Report of one worker.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// Cycle counter when the worker first saw the generation below.
    pub(crate) ticks: AtomicU64,
    /// Generation that the worker saw last.
    pub(crate) generation: AtomicU32,
}

// SAFETY: consists of atomics only, for which zero is a valid value.
unsafe impl Atomics for Board {}

/// Types that may be shared with other processes, which may write to them at any time.
///
/// # Safety
/// The type must consist of atomics only, and any bytes must be a valid value of it. It must not be
/// longer than a page, or than the file that it is mapped from.
pub(crate) unsafe trait Atomics {}

/// Mapping of a `T` at the beginning of a file.
pub(crate) struct Shared<T: Atomics> {
    address: *mut T,
    of: PhantomData<T>,
}

// SAFETY: the memory holds atomics only, and the mapping belongs to no thread.
unsafe impl<T: Atomics + Sync> Send for Shared<T> {}
// SAFETY: as above; atomics permit shared access.
unsafe impl<T: Atomics + Sync> Sync for Shared<T> {}

impl<T: Atomics> Shared<T> {
    /// Creates a zeroed file with a whole number of pages, and maps it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_len(size_of::<T>().next_multiple_of(PAGE) as u64)?;
        Self::map(&file)
    }

    /// Maps a file that [`create`](Self::create) has made, or a device of at least that length.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < size_of::<T>() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(&file)
    }

    fn map(file: &File) -> io::Result<Self> {
        let (length, protection) = (size_of::<T>(), ProtFlags::READ | ProtFlags::WRITE);
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
        Ok(Self {
            address: address.cast(),
            of: PhantomData,
        })
    }

    pub(crate) fn get(&self) -> &T {
        // SAFETY: mapped for as long as `self`, page-aligned, all atomics.
        unsafe { &*self.address }
    }
}

impl<T: Atomics> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping; `get()` borrows from `self`.
        let _ = unsafe { munmap(self.address.cast(), size_of::<T>()) };
    }
}

const PAGE: usize = 4096;
