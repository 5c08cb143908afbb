//! Handler of `futex` operations that wait with a timeout.

use crate::abi::Timespec;
use crate::clock::monotonic_ns;
use crate::sys::{errno, nr, syscall};
use crate::wait::{Deadline, until};

/// Handles `futex(word, operation, value, timeout, word2, value3)` if the operation waits and
/// `timeout` is given. The filter lets all others pass.
///
/// The second slice of a wait compares the word again, and returns EAGAIN if it has changed. A
/// program must expect such a wake-up at any time.
pub(crate) fn futex(args: [usize; 6]) -> isize {
    let [word, operation, value, timeout, word2, value3] = args;
    let realtime = operation & CLOCK_REALTIME_FLAG != 0;
    let command = operation & !(PRIVATE_FLAG | CLOCK_REALTIME_FLAG);
    let absolute = command != WAIT;
    // LOCK_PI is older than the flag FUTEX_CLOCK_REALTIME, and always means CLOCK_REALTIME.
    let clock = u32::from(!(realtime || command == LOCK_PI));
    // The flag is invalid with these two operations; the kernel returns ENOSYS.
    let refused = realtime && (command == WAIT || command == LOCK_PI);
    let wanted_ns = match Timespec::load(timeout).and_then(Timespec::to_ns) {
        Some(wanted_ns) if !refused => wanted_ns,
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        _ => return unsafe { syscall(nr::FUTEX, args) },
    };
    let deadline = if absolute {
        Deadline::on_clock(clock, wanted_ns).unwrap_or(Deadline::Never)
    } else {
        Deadline::after_ns(wanted_ns)
    };
    // The kernel takes a relative timeout for WAIT. For the other operations the timeout is
    // absolute, and on CLOCK_MONOTONIC. (LOCK_PI2 is LOCK_PI with a choice of the clock, so it can
    // serve both.)
    let kernel_command = if command == LOCK_PI {
        LOCK_PI2
    } else {
        command
    };
    let kernel_operation = kernel_command | (operation & PRIVATE_FLAG);
    until(deadline, errno::ETIMEDOUT, |slice| {
        let wall_ns = if absolute {
            slice.wall_ns.saturating_add(monotonic_ns() as i64)
        } else {
            slice.wall_ns
        };
        let wall = Timespec::from_ns(wall_ns);
        // SAFETY: the kernel checks the addresses of the words; it only reads `wall`.
        unsafe {
            slice.block(
                nr::FUTEX,
                [
                    word,
                    kernel_operation,
                    value,
                    &raw const wall as usize,
                    word2,
                    value3,
                ],
            )
        }
    })
}

const WAIT: usize = 0;
const LOCK_PI: usize = 6;
const LOCK_PI2: usize = 13;
const PRIVATE_FLAG: usize = 128;
const CLOCK_REALTIME_FLAG: usize = 256;
