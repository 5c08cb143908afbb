//! Replacement of file mappings for Miri: one heap page per page of a file, which all mappings of
//! it share. Writes to the heap page do not reach the file.

use core::ffi::c_void;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicU64;

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags};

use crate::shm::PAGE_SIZE;

/// Page of atomics, like every page that is mapped here.
#[repr(align(4096))]
struct Page([AtomicU64; PAGE_SIZE / 8]);

/// Heap pages by inode and offset. They are never freed, because other mappings may refer to them.
static PAGES: Mutex<BTreeMap<(u64, u64), &'static Page>> = Mutex::new(BTreeMap::new());

/// Maps a page of a shared file, in place of the kernel's `mmap`.
///
/// # Safety
/// The caller must meet the requirements of the kernel's `mmap`, although this replacement needs
/// none.
pub(crate) unsafe fn mmap(
    _: *mut c_void,
    _: usize,
    _: ProtFlags,
    _: MapFlags,
    fd: impl AsFd,
    offset: u64,
) -> Result<*mut c_void> {
    let inode = metadata(fd)?.ino();
    let mut pages = PAGES.lock().map_err(|_| Errno::NOMEM)?;
    let new = || Page(core::array::from_fn(|_| AtomicU64::new(0)));
    let page: &Page = pages
        .entry((inode, offset))
        .or_insert_with(|| Box::leak(Box::new(new())));
    Ok(page.0.as_ptr().cast_mut().cast())
}

/// Does nothing, because the pages in [`PAGES`] are never freed.
///
/// # Safety
/// The caller must meet the requirements of [`mmap`].
pub(crate) unsafe fn munmap(_: *mut c_void, _: usize) -> Result<()> {
    Ok(())
}

/// Returns the length of the file behind `fd`, in bytes. Miri has no `fstat`, but supports the
/// function of the standard library.
pub(crate) fn length_of(fd: impl AsFd) -> Result<u64> {
    Ok(metadata(fd)?.len())
}

fn metadata(fd: impl AsFd) -> Result<Metadata> {
    let owned = fd.as_fd().try_clone_to_owned();
    let found = owned.and_then(|fd| File::from(fd).metadata());
    found.map_err(|_| Errno::BADF)
}
