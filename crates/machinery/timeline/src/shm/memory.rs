//! Memory mappings of pages.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags};

#[cfg(miri)]
pub(crate) use crate::shm::interpreted::length_of;
#[cfg(miri)]
use crate::shm::interpreted::{mmap, munmap};
#[cfg(not(miri))]
use rustix::mm::{mmap, munmap};

use crate::shm::PAGE_SIZE;

/// Page that is mapped into this process until the value is dropped. `T` is a page of atomics, for
/// which every bit pattern is valid.
#[derive(Debug)]
pub(crate) struct Mapping<T> {
    page: NonNull<T>,
}

// SAFETY: the page holds atomics only, and the mapping belongs to no thread.
unsafe impl<T: Sync> Send for Mapping<T> {}
// SAFETY: as above; atomics may be accessed concurrently.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T> Mapping<T> {
    /// Maps the first page of `fd`. The file must be at least one page long ([`length_of`]).
    pub(crate) fn new(fd: impl AsFd, writable: bool) -> rustix::io::Result<Self> {
        Self::at(fd, 0, writable)
    }

    /// Maps the page with this number, counted from 0. The file must contain it.
    pub(crate) fn at(fd: impl AsFd, number: u32, writable: bool) -> rustix::io::Result<Self> {
        const { assert!(size_of::<T>() == PAGE_SIZE) };
        let write = if writable {
            ProtFlags::WRITE
        } else {
            ProtFlags::empty()
        };
        // SAFETY: a new mapping at an address that the kernel chooses changes no existing memory.
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

    /// Allocates a page of zeros without a file, for a reader that must not map its page.
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

    /// Returns the page. The caller must not store through a mapping that is read-only.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: the page is mapped until drop and aligned, and every bit pattern is a value of
        // the atomics in it. The file is at least as long as the page: the length is checked before
        // mapping. Readers map only files that cannot be truncated (`is_fixed`); a file that a
        // writer maps belongs to that writer.
        unsafe { self.page.as_ref() }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` created, and no reference into it can exist any
        // more. If the call fails, the memory stays mapped, which is harmless.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_SIZE) };
    }
}

/// Returns the length of the file behind `fd`, in bytes.
#[cfg(not(miri))]
pub(crate) fn length_of(fd: impl AsFd) -> rustix::io::Result<u64> {
    Ok(rustix::fs::fstat(fd)?.st_size as u64)
}

/// Returns true if the memory behind `fd` cannot be truncated. Truncating a file kills the
/// processes that have it mapped with SIGBUS when they read. Sealed memory and devices cannot be
/// truncated, nor can the files of sysfs that expose devices (the memory of a virtual machine's PCI
/// device).
#[cfg(not(miri))]
pub(crate) fn is_fixed(fd: impl AsFd) -> rustix::io::Result<bool> {
    use rustix::fs::{FileType, SealFlags, fcntl_get_seals, fstat, fstatfs};
    if fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        return Ok(true);
    }
    let is_file = FileType::from_raw_mode(fstat(&fd)?.st_mode) == FileType::RegularFile;
    Ok(!is_file || fstatfs(&fd)?.f_type == SYSFS)
}

/// Returns true, because under Miri a page is heap memory.
#[cfg(miri)]
pub(crate) fn is_fixed(_: impl AsFd) -> rustix::io::Result<bool> {
    Ok(true)
}

/// Copies the first page of a file in its present state. If the file is shorter than a page, the
/// inner result is its length as an error.
pub(crate) fn copy_of<T>(fd: impl AsFd) -> rustix::io::Result<Result<Box<T>, u64>> {
    const { assert!(size_of::<T>() == PAGE_SIZE) };
    let mut page = Box::<T>::new_uninit();
    // SAFETY: the slice covers the bytes of the allocation, which may be uninitialised.
    let bytes = unsafe {
        core::slice::from_raw_parts_mut(page.as_mut_ptr().cast::<MaybeUninit<u8>>(), PAGE_SIZE)
    };
    let (read, _) = rustix::io::pread(fd, bytes, 0)?;
    if read.len() < PAGE_SIZE {
        return Ok(Err(read.len() as u64));
    }
    // SAFETY: every byte was written by the read, and every bit pattern is a value of the atomics
    // in it.
    Ok(Ok(unsafe { page.assume_init() }))
}

/// Value `SYSFS_MAGIC` of linux/magic.h.
#[cfg(not(miri))]
const SYSFS: rustix::fs::FsWord = 0x6265_6572;

/// Returns a number for the present boot of this machine, by which a reader refuses a page from
/// another machine or boot. 0 if the kernel does not report a boot id.
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
