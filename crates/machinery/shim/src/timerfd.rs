//! timerfds that tell when their clock is set (`TFD_TIMER_CANCEL_ON_SET`).
//!
//! A timerfd is an eventfd here, kept by the supervisor. That puts
//! [`CLOCK_WAS_SET`] into it where the kernel's `read` would fail with ECANCELED;
//! reads come here in processes that have set such a timer (`extra.rs`).

use timeloom_calls::{Extra, ImageCall};
use timeloom_page::CLOCK_WAS_SET;

use crate::extra::install;
use crate::socket;
use crate::sys::{ask, errno, nr, readable, syscall};

/// `timerfd_settime(fd, flags, new, old)` with the flag.
pub(crate) fn settime(args: [usize; 6]) -> isize {
    let [fd, flags, new, old, ..] = args;
    // Where no more filters can be added (the program has forbidden itself to), the
    // reader is woken by an expiration.
    let question = ImageCall::SetTimer {
        descriptor: fd as i32,
        flags: flags as i32,
        new,
        old,
        is_told: install(Extra::Reads),
    };
    match ask(question) {
        // No timer of the session's.
        // SAFETY: the program's own call.
        errno::ENOSYS => unsafe { syscall(nr::TIMERFD_SETTIME, args) },
        result => result,
    }
}

/// `read(fd, buffer, length)`.
pub(crate) fn read(args: [usize; 6]) -> isize {
    let result = socket::read(args);
    // SAFETY: the kernel has just written that many bytes there.
    unsafe { look(result, args[0], args[1]) }
}

/// `readv(fd, parts, count)`.
pub(crate) fn readv(args: [usize; 6]) -> isize {
    let [fd, parts, ..] = args;
    let result = socket::readv(args);
    if result != EXPIRATIONS_BYTES || !readable(parts, 16) {
        return result;
    }
    // (Nobody splits a number of eight bytes among several parts.)
    // SAFETY: just tried; `struct iovec`.
    let [buffer, length] = unsafe { (parts as *const [usize; 2]).read_unaligned() };
    if (length as isize) < EXPIRATIONS_BYTES {
        return result;
    }
    // SAFETY: the kernel has just filled the first part.
    unsafe { look(result, fd, buffer) }
}

/// What a read that returned `result` is to return.
///
/// # Safety
/// It has just left its bytes in `buffer`.
unsafe fn look(result: isize, fd: usize, buffer: usize) -> isize {
    if result != EXPIRATIONS_BYTES {
        return result;
    }
    let number = buffer as *mut u64;
    // SAFETY: the caller vouches for it.
    if unsafe { number.read_unaligned() } != CLOCK_WAS_SET {
        return result;
    }
    let descriptor = fd as i32;
    if ask(ImageCall::IsTimer { descriptor }) < 0 {
        return result; // a file that holds this number
    }
    // SAFETY: as above. (What was there before is lost.)
    unsafe { number.write_unaligned(0) };
    errno::ECANCELED
}

const EXPIRATIONS_BYTES: isize = 8;
