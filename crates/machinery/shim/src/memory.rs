//! Calls on memory ranges that overlap the clock page or the image.
//!
//! Natively nothing is mapped at these addresses. A program that walks `/proc/self/maps` finds both
//! mappings, and expects operations on a mapping to succeed; a program that clears a range of
//! addresses expects it to be cleared. Such a call is therefore made for the parts below and above
//! the two mappings. It succeeds for the rest, which stays unchanged. A program cannot get its own
//! memory there: that fails with ENOMEM.

use timeloom_abi::{KEPT_RANGE, PAGE_SIZE};

use crate::sys::{errno, nr, syscall};

/// Handles `munmap`, `mprotect`, `pkey_mprotect` or `madvise`, according to `call`. The call is
/// made for the given range without the clock page and the image.
pub(crate) fn on_range(call: usize, args: [usize; 6]) -> isize {
    let [address, length, rest @ ..] = args;
    // SAFETY: the program's own call, on a range without the clock page and the image.
    let native = |address: usize, length: usize| unsafe {
        let [second, third, fourth, fifth] = rest;
        syscall(call, [address, length, second, third, fourth, fifth])
    };
    let Some(end) = end_if_reaching(address, length) else {
        return native(address, length);
    };
    // For an empty range, the kernel checks the other arguments. (`munmap` has none, and refuses
    // such a range.)
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

/// Handles `mmap` at a fixed address.
pub(crate) fn mmap(args: [usize; 6]) -> isize {
    if end_if_reaching(args[0], args[1]).is_some() {
        return errno::ENOMEM;
    }
    // SAFETY: the program's own call, outside the kept range.
    unsafe { syscall(nr::MMAP, args) }
}

/// Handles `mremap(old, old_length, new_length, flags, new)`.
pub(crate) fn mremap(args: [usize; 6]) -> isize {
    let [old, old_length, new_length, flags, new, _] = args;
    if end_if_reaching(old, old_length).is_some() {
        // The kernel returns this error for an unmapped range.
        return errno::EFAULT;
    }
    if flags & MREMAP_FIXED != 0 && end_if_reaching(new, new_length).is_some() {
        return errno::ENOMEM;
    }
    // SAFETY: the program's own call, outside the kept range.
    unsafe { syscall(nr::MREMAP, args) }
}

/// Handles `remap_file_pages(address, length, protection, offset, flags)`.
pub(crate) fn remap_file_pages(args: [usize; 6]) -> isize {
    if end_if_reaching(args[0], args[1]).is_some() {
        return errno::EINVAL;
    }
    // SAFETY: the program's own call, outside the kept range.
    unsafe { syscall(nr::REMAP_FILE_PAGES, args) }
}

/// Handles `arch_prctl(ARCH_MAP_VDSO_…)`: fails as if the program still had its vDSO. The program's
/// vDSO has no data; another vDSO of the kernel would show the machine's time.
pub(crate) fn arch_prctl() -> isize {
    errno::EEXIST
}

/// Returns the end of a range if it overlaps the clock page or the image. Returns `None` otherwise,
/// and for ranges that the kernel refuses: an unaligned address, an empty range, or one beyond the
/// address space.
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
