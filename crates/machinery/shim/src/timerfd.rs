//! timerfds that report clock changes (`TFD_TIMER_CANCEL_ON_SET`).
//!
//! In a session, a timerfd is an eventfd kept by the supervisor. The supervisor writes
//! [`CLOCK_WAS_SET`] to it when the kernel's `read` would fail with ECANCELED. In processes that
//! have set such a timer, reads trap (`extra.rs`).

use timeloom_abi::CLOCK_WAS_SET;
use timeloom_abi::calls::{Extra, ImageCall};

use crate::extra::install;
use crate::socket;
use crate::sys::{ask, errno, nr, readable, syscall};

/// Handles `timerfd_settime(fd, flags, new, old)` with the flag TFD_TIMER_CANCEL_ON_SET.
pub(crate) fn settime(args: [usize; 6]) -> isize {
    let [fd, flags, new, old, ..] = args;
    // If no more filters can be added because the program has disabled this, a change of the clock
    // wakes the reader like an expiration.
    let question = ImageCall::SetTimer {
        descriptor: fd as i32,
        flags: flags as i32,
        new,
        old,
        is_told: install(Extra::Reads),
    };
    match ask(question) {
        // The descriptor is not a timer of the session. SAFETY: the program's own call.
        errno::ENOSYS => unsafe { syscall(nr::TIMERFD_SETTIME, args) },
        result => result,
    }
}

/// Handles `read(fd, buffer, length)`.
pub(crate) fn read(args: [usize; 6]) -> isize {
    let result = socket::read(args);
    // SAFETY: the kernel has just written that many bytes there.
    unsafe { look(result, args[0], args[1]) }
}

/// Handles `readv(fd, parts, count)`.
pub(crate) fn readv(args: [usize; 6]) -> isize {
    let [fd, parts, ..] = args;
    let result = socket::readv(args);
    if result != EXPIRATIONS_BYTES || !readable(parts, 16) {
        return result;
    }
    // (Programs do not split a number of eight bytes among several parts.) SAFETY: the memory, a
    // `struct iovec`, was just tested.
    let [buffer, length] = unsafe { (parts as *const [usize; 2]).read_unaligned() };
    if (length as isize) < EXPIRATIONS_BYTES {
        return result;
    }
    // SAFETY: the kernel has just filled the first part.
    unsafe { look(result, fd, buffer) }
}

/// Returns the result to give the program for a read that returned `result`.
///
/// # Safety
/// The read must have just written its bytes to `buffer`.
unsafe fn look(result: isize, fd: usize, buffer: usize) -> isize {
    if result != EXPIRATIONS_BYTES {
        return result;
    }
    let number = buffer as *mut u64;
    // SAFETY: guaranteed by the caller.
    if unsafe { number.read_unaligned() } != CLOCK_WAS_SET {
        return result;
    }
    let descriptor = fd as i32;
    if ask(ImageCall::IsTimer { descriptor }) < 0 {
        return result; // a file that holds this number
    }
    // SAFETY: the same as above. (The previous contents of the buffer are lost.)
    unsafe { number.write_unaligned(0) };
    errno::ECANCELED
}

const EXPIRATIONS_BYTES: isize = 8;
