//! Shared memory: sealed memfds, and our own mapping of the clock page.

use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

use timeloom_page::{ClockPage, PAGE_SIZE};
use timeloom_time::Scale;

use crate::error::{GuestError, check};

/// A memfd with `contents` that nobody can change any more.
pub(crate) fn sealed_memfd(name: &CStr, contents: &[u8]) -> Result<File, GuestError> {
    let mut file = memfd(name)?;
    file.write_all(contents)
        .map_err(GuestError::system("writing a memfd"))?;
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    check(
        // SAFETY: a plain fcntl on a descriptor we own.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }.into(),
        "sealing a memfd",
    )?;
    Ok(file)
}

/// The supervisor's writable view of a clock page, which shows the time `S`. Guests
/// can map the memfd for reading only and cannot change its size.
pub(crate) struct PageMapping<S: Scale> {
    pub(crate) file: File,
    address: *mut ClockPage<S>,
}

// SAFETY: the page consists of atomics; the mapping lives as long as `self`.
unsafe impl<S: Scale> Send for PageMapping<S> {}
// SAFETY: as above.
unsafe impl<S: Scale> Sync for PageMapping<S> {}

impl<S: Scale> PageMapping<S> {
    /// A zeroed page under `name`, which shows in /proc/PID/maps of guests.
    pub(crate) fn new(name: &CStr) -> Result<Self, GuestError> {
        let file = memfd(name)?;
        file.set_len(PAGE_SIZE as u64)
            .map_err(GuestError::system("sizing the clock page"))?;
        // SAFETY: a new shared mapping of a file of that size.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(GuestError::last("mapping the clock page"));
        }
        // Children of ours that are no guests must not pass for supervisors.
        // SAFETY: our own mapping.
        let kept = unsafe { libc::madvise(address, PAGE_SIZE, libc::MADV_DONTFORK) };
        check(kept.into(), "keeping the clock page from children")?;
        // After our own mapping exists, no other writable one can be made.
        let seals =
            libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
        check(
            // SAFETY: a plain fcntl on a descriptor we own.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }.into(),
            "sealing the clock page",
        )?;
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
        unsafe { libc::munmap(self.address.cast(), PAGE_SIZE) };
    }
}

pub(crate) fn memfd(name: &CStr) -> Result<File, GuestError> {
    // SAFETY: `name` is a valid C string.
    let fd =
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    check(fd.into(), "creating a memfd")?;
    // SAFETY: just created and owned by nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}
