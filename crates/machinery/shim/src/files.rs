//! Times of files that a program sets to "now", in virtual time.
//!
//! Dates that the kernel itself sets when a file is changed are in the machine's time; see
//! [`crate::dates`].

use crate::abi::Timespec;
use crate::clock::now_ns;
use crate::dates;
use crate::sys::{errno, nr, readable, syscall};

/// Handles `utimensat(directory, path, [access, modification], flags)`.
pub(crate) fn utimensat(args: [usize; 6]) -> isize {
    let [directory, path, times, flags, ..] = args;
    let now = Timespec::from_ns(now_ns(0).unwrap_or(0));
    let mut wanted = [now, now];
    let mut only_now = true;
    if times != 0 {
        if !readable(times, 32) {
            return errno::EFAULT;
        }
        // SAFETY: the kernel has just read the structure.
        wanted = unsafe { (times as *const [Timespec; 2]).read_unaligned() };
        only_now = wanted.iter().all(|time| time.ns == UTIME_NOW);
        for time in &mut wanted {
            if time.ns == UTIME_NOW {
                *time = now;
            }
        }
    }
    let set = |times: usize| {
        // SAFETY: the kernel checks the path; the times are in memory of the image or the program.
        unsafe { syscall(nr::UTIMENSAT, [directory, path, times, flags, 0, 0]) }
    };
    let result = set(wanted.as_ptr() as usize);
    if result == 0 {
        let which = wanted.map(|time| time.ns != UTIME_OMIT);
        dates::keep(directory, path, flags, which);
    }
    if only_now && matches!(result, errno::EPERM | errno::EACCES) {
        // A program that may write to a file but does not own it may set its times only to "now".
        // In that case the kernel's time is used.
        return set(times);
    }
    result
}

const UTIME_NOW: i64 = 0x3fff_ffff;
const UTIME_OMIT: i64 = 0x3fff_fffe;
