//! Handlers of `nanosleep` and `clock_nanosleep`.

use timeloom_time::Instant;

use crate::abi::Timespec;
use crate::clock::{offset_ns, read};
use crate::cpu::is_cpu_clock;
use crate::cpu_timer;
use crate::sys::{errno, nr, syscall};
use crate::wait::{Deadline, until};

/// Handles `nanosleep(request, remaining)`.
pub(crate) fn nanosleep(args: [usize; 6]) -> isize {
    clock_nanosleep([CLOCK_MONOTONIC, 0, args[0], args[1], 0, 0])
}

/// Handles `clock_nanosleep(clock, flags, request, remaining)`.
pub(crate) fn clock_nanosleep(args: [usize; 6]) -> isize {
    let [clock, flags, request, remaining, ..] = args;
    if is_cpu_clock(clock as u32) {
        return cpu_timer::clock_nanosleep(args);
    }
    let (_, offset) = read(|copy| offset_ns(clock as u32, copy));
    let wanted = Timespec::load(request).and_then(Timespec::to_ns);
    let (Some(_), Some(wanted_ns)) = (offset, wanted) else {
        // The kernel handles clocks without a fixed offset, and invalid arguments. SAFETY: the
        // kernel checks the pointers.
        return unsafe { syscall(nr::CLOCK_NANOSLEEP, args) };
    };
    if !matches!(clock as u32, REALTIME | MONOTONIC | BOOTTIME | TAI) {
        // A clock may be readable but not support sleeping: an alarm clock without an alarm chip or
        // without the privilege, or another clock. A sleep that expires at once makes the kernel
        // check this.
        let past = Timespec { s: 0, ns: 0 };
        // SAFETY: the kernel only reads `past`.
        let result = unsafe {
            syscall(
                nr::CLOCK_NANOSLEEP,
                [clock, TIMER_ABSTIME, &raw const past as usize, 0, 0, 0],
            )
        };
        if result != 0 {
            return result;
        }
    }
    let absolute = flags & TIMER_ABSTIME != 0;
    let deadline = if absolute {
        Deadline::on_clock(clock as u32, wanted_ns).unwrap_or(Deadline::At(Instant::FAR_FUTURE))
    } else {
        Deadline::after_ns(wanted_ns)
    };
    let result = sleep_until(deadline);
    if result == errno::EINTR && !absolute && remaining != 0 {
        return store_remaining(deadline.left_ns().unwrap_or(0), remaining);
    }
    result
}

/// Sleeps until the deadline. Returns zero, or `EINTR` if a handler ran.
pub(crate) fn sleep_until(deadline: Deadline) -> isize {
    until(deadline, 0, |slice| match &slice.wall {
        Some(wall) if slice.wall_ns > 0 => {
            // SAFETY: the call reads 16 bytes of `wall`, and writes nothing.
            unsafe {
                slice.block(
                    nr::CLOCK_NANOSLEEP,
                    [CLOCK_MONOTONIC, 0, wall as *const _ as usize, 0, 0, 0],
                )
            }
        }
        _ => 0,
    })
}

/// Stores the remaining time, in nanoseconds, of an interrupted sleep at address `remaining`.
/// Returns the result of the sleep.
pub(crate) fn store_remaining(left_ns: i64, remaining: usize) -> isize {
    // `rt_sigpending` writes 8 bytes, and thereby tests whether the memory is writable. SAFETY: the
    // kernel checks the pointer.
    if unsafe { syscall(nr::RT_SIGPENDING, [remaining, 8, 0, 0, 0, 0]) } < 0 {
        return errno::EFAULT;
    }
    let left = Timespec::from_ns(left_ns);
    // SAFETY: the memory is writable, as just tested.
    unsafe { (remaining as *mut Timespec).write_unaligned(left) };
    errno::EINTR
}

const CLOCK_MONOTONIC: usize = 1;
pub(crate) const TIMER_ABSTIME: usize = 1;
const REALTIME: u32 = 0;
const MONOTONIC: u32 = 1;
const BOOTTIME: u32 = 7;
const TAI: u32 = 11;
