//! The memory behind a page.

use core::ptr::NonNull;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags};

#[cfg(miri)]
pub(crate) use crate::interpreted::length_of;
#[cfg(miri)]
use crate::interpreted::{mmap, munmap};
#[cfg(not(miri))]
use rustix::mm::{mmap, munmap};

use crate::PAGE_SIZE;

/// A page mapped into this process until it is dropped, as a `T`: a page of
/// atomics, for which every bit pattern is a value.
#[derive(Debug)]
pub(crate) struct Mapping<T> {
    page: NonNull<T>,
}

// SAFETY: the page holds atomics only, and the mapping belongs to no thread.
unsafe impl<T: Sync> Send for Mapping<T> {}
// SAFETY: as above; shared access to atomics is what they are for.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T> Mapping<T> {
    /// Maps the first page of `fd`, which must be at least that long
    /// ([`length_of`]).
    pub(crate) fn new(fd: impl AsFd, writable: bool) -> rustix::io::Result<Self> {
        Self::at(fd, 0, writable)
    }

    /// Maps the page of this number, from 0 on, under the same condition.
    pub(crate) fn at(fd: impl AsFd, number: u32, writable: bool) -> rustix::io::Result<Self> {
        const { assert!(size_of::<T>() == PAGE_SIZE) };
        let write = if writable {
            ProtFlags::WRITE
        } else {
            ProtFlags::empty()
        };
        // SAFETY: a fresh mapping at an address that the kernel chooses touches
        // nothing that exists.
        let address = unsafe {
            mmap(
                core::ptr::null_mut(),
                PAGE_SIZE,
                ProtFlags::READ | write,
                MapFlags::SHARED,
                fd,
                u64::from(number) * PAGE_SIZE as u64,
            )
        }?;
        let page = NonNull::new(address.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self { page })
    }

    /// The page. Through a read-only mapping nothing may be stored.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: mapped until drop, aligned to a page, and every bit pattern is
        // a value of the atomics in it. The file is as long as the page: checked
        // before mapping, and it is sealed or, by contract, never truncated.
        unsafe { self.page.as_ref() }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and nobody can hold a
        // reference into it any more. Failure would leave it mapped: no harm.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_SIZE) };
    }
}

/// Bytes of the file behind `fd`.
#[cfg(not(miri))]
pub(crate) fn length_of(fd: impl AsFd) -> rustix::io::Result<u64> {
    Ok(rustix::fs::fstat(fd)?.st_size as u64)
}

/// A number for this boot of this machine, so that a page that was copied
/// elsewhere is not believed. 0 where the kernel does not tell.
pub(crate) fn machine() -> u64 {
    if cfg!(miri) {
        return 0; // it warns about files of /proc
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.bytes().filter_map(|byte| (byte as char).to_digit(16));
    digits.fold(0, |hash: u64, digit| {
        (hash ^ u64::from(digit))
            .wrapping_mul(0x100_0000_01b3)
            .rotate_left(5)
    })
}
