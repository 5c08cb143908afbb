//! Shared memory: sealed memfds, and the supervisor's own mapping of a clock page.

use std::ffi::CStr;
use std::fs::File;
use std::io::Write;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use timeloom_abi::{ClockPage, PAGE_SIZE};
use timeloom_time::Scale;

use crate::error::GuestError;

/// Creates a memfd with `contents`, which are sealed against changes.
pub(crate) fn sealed_memfd(name: &CStr, contents: &[u8]) -> Result<File, GuestError> {
    let mut file = memfd(name)?;
    file.write_all(contents)
        .map_err(GuestError::system("writing a memfd"))?;
    fcntl_add_seals(&file, SealFlags::WRITE | FIXED)
        .map_err(GuestError::system("sealing a memfd"))?;
    Ok(file)
}

/// The supervisor's writable mapping of a clock page, whose time has the scale `S`. Guests can map
/// the memfd only for reading, and cannot change its size.
pub(crate) struct PageMapping<S: Scale> {
    pub(crate) file: File,
    address: *mut ClockPage<S>,
}

// SAFETY: the page consists of atomics; the mapping exists as long as `self`.
unsafe impl<S: Scale> Send for PageMapping<S> {}
// SAFETY: the same as above.
unsafe impl<S: Scale> Sync for PageMapping<S> {}

impl<S: Scale> PageMapping<S> {
    /// Creates a zeroed page. /proc/PID/maps of guests shows it under `name`.
    pub(crate) fn new(name: &CStr) -> Result<Self, GuestError> {
        let file = memfd(name)?;
        file.set_len(PAGE_SIZE as u64)
            .map_err(GuestError::system("sizing the clock page"))?;
        // SAFETY: creates a new shared mapping of a file of that size.
        let address = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let anywhere = std::ptr::null_mut();
            mmap(anywhere, PAGE_SIZE, protection, MapFlags::SHARED, &file, 0)
        }
        .map_err(GuestError::system("mapping the clock page"))?;
        // Children of this process that are not guests must not be taken for supervisors. SAFETY:
        // the mapping is our own.
        unsafe { madvise(address, PAGE_SIZE, Advice::LinuxDontFork) }
            .map_err(GuestError::system("excluding the clock page from children"))?;
        // Our own mapping exists now. From here on no other writable one can be made.
        fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | FIXED)
            .map_err(GuestError::system("sealing the clock page"))?;
        Ok(Self {
            file,
            address: address.cast(),
        })
    }

    pub(crate) fn page(&self) -> &ClockPage<S> {
        // SAFETY: mapped for as long as `self`, page-aligned, all atomics.
        unsafe { &*self.address }
    }
}

impl<S: Scale> Drop for PageMapping<S> {
    fn drop(&mut self) {
        // SAFETY: our own mapping; `page()` borrows from `self`.
        let _ = unsafe { munmap(self.address.cast(), PAGE_SIZE) };
    }
}

pub(crate) fn memfd(name: &CStr) -> Result<File, GuestError> {
    memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map(File::from)
        .map_err(GuestError::system("creating a memfd"))
}

/// Seals by which neither the size nor the seals of a memfd can be changed.
const FIXED: SealFlags = SealFlags::GROW
    .union(SealFlags::SHRINK)
    .union(SealFlags::SEAL);
