//! Calls on ranges of memory that reach into the clock page or the image.
//!
//! Natively nothing is mapped there. A program that walks `/proc/self/maps` finds both, and
//! expects what it does to a mapping to succeed; one that clears a range of addresses expects
//! it to be cleared. So such a call is made for what lies below and above, and succeeds for
//! the rest, which stays as it is. To have memory of its own there a program cannot be given:
//! that fails for want of memory.

use timeloom_page::{KEPT_RANGE, PAGE_SIZE};

use crate::sys::{errno, nr, syscall};

/// `munmap`, `mprotect`, `pkey_mprotect` or `madvise`, as `call` says: of all its range but
/// what is kept.
pub(crate) fn on_range(call: usize, args: [usize; 6]) -> isize {
    let [address, length, rest @ ..] = args;
    // SAFETY: the program's own call, on a range without what is kept.
    let native = |address: usize, length: usize| unsafe {
        let [second, third, fourth, fifth] = rest;
        syscall(call, [address, length, second, third, fourth, fifth])
    };
    let Some(end) = end_if_reaching(address, length) else {
        return native(address, length);
    };
    // An empty range: the other arguments are checked. (`munmap` has none, and takes no such
    // range.)
    if call != nr::MUNMAP {
        let result = native(address, 0);
        if result != 0 {
            return result;
        }
    }
    if address < KEPT_START {
        let result = native(address, KEPT_START - address);
        if result != 0 {
            return result;
        }
    }
    if end > KEPT_END {
        return native(KEPT_END, end - KEPT_END);
    }
    0
}

/// `mmap` at a fixed address.
pub(crate) fn mmap(args: [usize; 6]) -> isize {
    if end_if_reaching(args[0], args[1]).is_some() {
        return errno::ENOMEM;
    }
    // SAFETY: the program's own call, elsewhere.
    unsafe { syscall(nr::MMAP, args) }
}

/// `mremap(old, old_length, new_length, flags, new)`.
pub(crate) fn mremap(args: [usize; 6]) -> isize {
    let [old, old_length, new_length, flags, new, _] = args;
    if end_if_reaching(old, old_length).is_some() {
        // As where nothing is mapped.
        return errno::EFAULT;
    }
    if flags & MREMAP_FIXED != 0 && end_if_reaching(new, new_length).is_some() {
        return errno::ENOMEM;
    }
    // SAFETY: the program's own call, elsewhere.
    unsafe { syscall(nr::MREMAP, args) }
}

/// `remap_file_pages(address, length, protection, offset, flags)`.
pub(crate) fn remap_file_pages(args: [usize; 6]) -> isize {
    if end_if_reaching(args[0], args[1]).is_some() {
        return errno::EINVAL;
    }
    // SAFETY: the program's own call, elsewhere.
    unsafe { syscall(nr::REMAP_FILE_PAGES, args) }
}

/// `arch_prctl(ARCH_MAP_VDSO_…)`: as where the program still has its vDSO, which has no data.
/// Another one would have the kernel's.
pub(crate) fn arch_prctl() -> isize {
    errno::EEXIST
}

/// The end of a range, if it reaches into what is kept. `None` also for what the kernel
/// refuses: an address within a page, nothing, or more than there is.
fn end_if_reaching(address: usize, length: usize) -> Option<usize> {
    if !address.is_multiple_of(PAGE_SIZE) || length == 0 {
        return None;
    }
    let end = length
        .checked_next_multiple_of(PAGE_SIZE)
        .and_then(|length| address.checked_add(length))?;
    (address < KEPT_END && end > KEPT_START).then_some(end)
}

const KEPT_START: usize = KEPT_RANGE.start as usize;
const KEPT_END: usize = KEPT_RANGE.end as usize;
const MREMAP_FIXED: usize = 2;
