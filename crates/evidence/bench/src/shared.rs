//! Memory that a measured party and its commander share: a file, mapped by both.
//!
//! A worker that spins cannot be asked over a socket without changing what is
//! measured. So it looks at a *generation* in shared memory; when that has
//! changed, it notes when it saw it first.

use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Most workers that fit.
pub(crate) const SLOTS: usize = 64;

/// What a spinning worker looks at. Zeroed to begin with.
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

// SAFETY: all of it is atomics, of which zero is a value.
unsafe impl Atomics for Board {}

/// What may be shared with others who write to it.
///
/// # Safety
/// All of it is atomics, any bytes are a value of it, and it is no longer than a page or
/// the file that it is mapped from is.
pub(crate) unsafe trait Atomics {}

/// A mapping of a `T` at the beginning of a file.
pub(crate) struct Shared<T: Atomics> {
    address: *mut T,
    of: PhantomData<T>,
}

// SAFETY: the memory holds atomics only, and the mapping belongs to no thread.
unsafe impl<T: Atomics + Sync> Send for Shared<T> {}
// SAFETY: as above; shared access to atomics is what they are for.
unsafe impl<T: Atomics + Sync> Sync for Shared<T> {}

impl<T: Atomics> Shared<T> {
    /// Zeros in a new file of whole pages.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_len(size_of::<T>().next_multiple_of(PAGE) as u64)?;
        Self::map(&file)
    }

    /// What is in a file that [`create`](Self::create) made, or that a device offers of at
    /// least that length.
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
