//! For Miri, which maps no files: a page of the heap for each file that is mapped,
//! the same one whenever it is mapped again. What is written to the page does not
//! get into the file.

use core::ffi::c_void;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags};

use crate::PAGE_SIZE;

/// Atomics, as in every page that is mapped here.
#[repr(align(4096))]
struct Page([AtomicU64; PAGE_SIZE / 8]);

/// By inode and offset. A page stays for good: others may have it mapped.
static PAGES: Mutex<BTreeMap<(u64, u64), &'static Page>> = Mutex::new(BTreeMap::new());

/// As the kernel's, for one page of a file that is shared.
///
/// # Safety
/// As the call that it stands for; here, none is needed.
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

/// Nothing: see [`PAGES`].
///
/// # Safety
/// As [`mmap`].
pub(crate) unsafe fn munmap(_: *mut c_void, _: usize) -> Result<()> {
    Ok(())
}

/// Bytes of the file behind `fd`. (Miri has no `fstat`, but what the standard
/// library does instead.)
pub(crate) fn length_of(fd: impl AsFd) -> Result<u64> {
    Ok(metadata(fd)?.len())
}

fn metadata(fd: impl AsFd) -> Result<Metadata> {
    let owned = fd.as_fd().try_clone_to_owned();
    let found = owned.and_then(|fd| File::from(fd).metadata());
    found.map_err(|_| Errno::BADF)
}
