//! Memory of pages.

use core::mem::MaybeUninit;
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

/// Page mapped into this process until it is dropped, as a `T`: a page of atomics, for which every
/// bit pattern is a value.
#[derive(Debug)]
pub(crate) struct Mapping<T> {
    page: NonNull<T>,
}

// SAFETY: the page holds atomics only, and the mapping belongs to no thread.
unsafe impl<T: Sync> Send for Mapping<T> {}
// SAFETY: as above; atomics may be accessed concurrently.
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

    /// Allocates a page of zeros that is not backed by a file, for a reader that may not map its
    /// page.
    pub(crate) fn anonymous() -> rustix::io::Result<Self> {
        const { assert!(size_of::<T>() == PAGE_SIZE) };
        // SAFETY: as in `at`.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                PAGE_SIZE,
                ProtFlags::READ,
                MapFlags::PRIVATE,
            )
        }?;
        let page = NonNull::new(address.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self { page })
    }

    /// Returns the page. Through a read-only mapping nothing may be stored.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: mapped until drop, aligned to a page, and every bit pattern is a value of the
        // atomics in it. The file is as long as the page: checked before mapping. Readers map only
        // files that cannot be truncated (`is_fixed`); a file mapped by a writer belongs to the
        // writer.
        unsafe { self.page.as_ref() }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and there can be no reference into it any
        // more. Failure would leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_SIZE) };
    }
}

/// Returns the length of the file behind `fd`, in bytes.
#[cfg(not(miri))]
pub(crate) fn length_of(fd: impl AsFd) -> rustix::io::Result<u64> {
    Ok(rustix::fs::fstat(fd)?.st_size as u64)
}

/// Returns true if the memory behind `fd` cannot be truncated: truncating a mapped page ends its
/// reader by SIGBUS. This holds for sealed memory, devices, and the files of sysfs that show
/// devices (the memory of a virtual machine's PCI device).
#[cfg(not(miri))]
pub(crate) fn is_fixed(fd: impl AsFd) -> rustix::io::Result<bool> {
    use rustix::fs::{FileType, SealFlags, fcntl_get_seals, fstat, fstatfs};
    if fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        return Ok(true);
    }
    let is_file = FileType::from_raw_mode(fstat(&fd)?.st_mode) == FileType::RegularFile;
    Ok(!is_file || fstatfs(&fd)?.f_type == SYSFS)
}

/// Returns true: under Miri a page is heap memory.
#[cfg(miri)]
pub(crate) fn is_fixed(_: impl AsFd) -> rustix::io::Result<bool> {
    Ok(true)
}

/// Copies the first page of a file in its present state; returns the file's length if it is
/// shorter.
pub(crate) fn copy_of<T>(fd: impl AsFd) -> rustix::io::Result<Result<Box<T>, u64>> {
    const { assert!(size_of::<T>() == PAGE_SIZE) };
    let mut page = Box::<T>::new_uninit();
    // SAFETY: the bytes of the allocation, which may be uninitialised.
    let bytes = unsafe {
        core::slice::from_raw_parts_mut(page.as_mut_ptr().cast::<MaybeUninit<u8>>(), PAGE_SIZE)
    };
    let (read, _) = rustix::io::pread(fd, bytes, 0)?;
    if read.len() < PAGE_SIZE {
        return Ok(Err(read.len() as u64));
    }
    // SAFETY: every byte was read, and every bit pattern is a value of the atomics in it.
    Ok(Ok(unsafe { page.assume_init() }))
}

/// `SYSFS_MAGIC` of linux/magic.h.
#[cfg(not(miri))]
const SYSFS: rustix::fs::FsWord = 0x6265_6572;

/// Returns a number for this boot of this machine, so that a page that was copied elsewhere is not
/// accepted. 0 if the kernel does not report it.
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
