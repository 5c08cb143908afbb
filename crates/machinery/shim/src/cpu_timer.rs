//! Waits for processor time: POSIX timers and sleeps on CPU clocks.
//!
//! The kernel keeps these timers and sleeps, with intervals in real processor time. Signals,
//! overruns and the threads to notify are then the same as natively. A pause needs no action: a
//! thread that does not run uses no processor time. When the rate changes, the supervisor
//! interrupts a sleeping thread, which then sleeps anew. An armed timer keeps its length, since
//! only its process could change it.

use crate::abi::Timespec;
use crate::cpu::{at_present_rate, shown_by_timer_ns, shown_ns, to_real};
use crate::sleep::{TIMER_ABSTIME, store_remaining};
use crate::sys::{errno, nr, readable, syscall};
use crate::wait::at_each_rate;

/// Handles `clock_nanosleep(clock, flags, request, remaining)` on a CPU clock.
pub(crate) fn clock_nanosleep(args: [usize; 6]) -> isize {
    let [clock, flags, request, remaining, ..] = args;
    let Some(wanted_ns) = Timespec::load(request).and_then(Timespec::to_ns) else {
        // SAFETY: the arguments are invalid, so the kernel refuses the call; it checks the
        // pointers.
        return unsafe { syscall(nr::CLOCK_NANOSLEEP, args) };
    };
    let sleep_until = |at_ns: i64| {
        let at = Timespec::from_ns(at_ns);
        let call = |at: &Timespec| [clock, TIMER_ABSTIME, at as *const _ as usize, 0, 0, 0];
        (at, call)
    };
    // A sleep that expires at once makes the kernel check whether the clock exists and supports
    // sleeping.
    let (past, call) = sleep_until(0);
    // SAFETY: the kernel only reads `past`.
    let result = unsafe { syscall(nr::CLOCK_NANOSLEEP, call(&past)) };
    if result != 0 {
        return result;
    }
    let absolute = flags & TIMER_ABSTIME != 0;
    let Some((_, begun_ns)) = clock_now(clock) else {
        return errno::EINVAL;
    };
    let until_ns = if absolute {
        wanted_ns
    } else {
        begun_ns.saturating_add(wanted_ns)
    };
    let left = || {
        let (real_ns, shown_ns) = clock_now(clock)?;
        Some((real_ns, until_ns.saturating_sub(shown_ns)))
    };
    let result = at_each_rate(|slice| {
        let Some((real_ns, left_ns)) = left() else {
            return 0; // its process has ended, which ends the sleep
        };
        if left_ns <= 0 {
            return 0;
        }
        let (at, call) = sleep_until(real_ns.saturating_add(to_real(left_ns)));
        // SAFETY: the kernel only reads `at`.
        unsafe { slice.block(nr::CLOCK_NANOSLEEP, call(&at)) }
    });
    if result == errno::EINTR && !absolute && remaining != 0 {
        let left_ns = left().map_or(0, |(_, left_ns)| left_ns.max(0));
        return store_remaining(left_ns, remaining);
    }
    result
}

/// Returns the kernel's value of a CPU clock and the value shown to programs, both in nanoseconds.
fn clock_now(clock: usize) -> Option<(i64, i64)> {
    let mut now = Timespec { s: 0, ns: 0 };
    let at = &raw mut now as usize;
    // SAFETY: writes 16 bytes into `now`.
    if unsafe { syscall(nr::CLOCK_GETTIME, [clock, at, 0, 0, 0, 0]) } != 0 {
        return None;
    }
    let real_ns = now.to_ns()?;
    Some((real_ns, shown_ns(clock as u32, real_ns)))
}

/// Handles `timer_settime(timer, flags, new, old)` of a timer that the kernel keeps.
pub(crate) fn timer_settime(args: [usize; 6]) -> isize {
    let [timer, flags, new, old, ..] = args;
    if new == 0 || !readable(new, size_of::<Setting>()) {
        // SAFETY: the arguments are invalid, so the kernel refuses the call; it checks the
        // pointers.
        return unsafe { syscall(nr::TIMER_SETTIME, args) };
    }
    // SAFETY: the kernel has just read both ends of the structure.
    let given = unsafe { (new as *const Setting).read_unaligned() };
    let [Some(interval_ns), Some(value_ns)] = given.map(Timespec::to_ns) else {
        // SAFETY: the same as above.
        return unsafe { syscall(nr::TIMER_SETTIME, args) };
    };
    let mut before = ZERO;
    let mut value_real_ns = to_real(value_ns);
    if flags & TIMER_ABSTIME != 0 && value_ns != 0 {
        let result = set(
            timer,
            TIMER_ABSTIME,
            &[ZERO[0], Timespec::from_ns(FAR_NS)],
            &mut before,
        );
        if result != 0 {
            return result;
        }
        value_real_ns = instant(timer, value_ns);
    }
    let wanted = [to_real(interval_ns), value_real_ns].map(Timespec::from_ns);
    let mut replaced = ZERO;
    let result = set(timer, flags, &wanted, &mut replaced);
    if result != 0 || old == 0 {
        return result;
    }
    let absolute = flags & TIMER_ABSTIME != 0 && value_ns != 0;
    let shown = if absolute { before } else { replaced };
    // The kernel, too, has already set the timer when it finds that `old` is not writable.
    store(old, shown)
}

/// Returns the instant of a timer's CPU clock, in real processor time, at which the shown clock
/// reads `at_ns`. The timer must be set to [`FAR_NS`]: the value of its clock, which is not known
/// here, follows from the remaining time.
fn instant(timer: usize, at_ns: i64) -> i64 {
    let mut left = ZERO;
    let address = &raw mut left as usize;
    // SAFETY: writes 32 bytes into `left`.
    unsafe { syscall(nr::TIMER_GETTIME, [timer, address, 0, 0, 0, 0]) };
    let [_, value] = left;
    let real_ns = FAR_NS.saturating_sub(value.to_ns().unwrap_or(0));
    let left_ns = at_ns.saturating_sub(shown_by_timer_ns(timer, real_ns));
    // A value of zero would disarm the timer; an instant in the past fires at once.
    if left_ns <= 0 {
        1
    } else {
        real_ns.saturating_add(to_real(left_ns))
    }
}

fn set(timer: usize, flags: usize, new: &Setting, old: &mut Setting) -> isize {
    let new = core::ptr::from_ref(new) as usize;
    let old = core::ptr::from_mut(old) as usize;
    // SAFETY: the call reads and writes 32 bytes of the image's memory each.
    unsafe { syscall(nr::TIMER_SETTIME, [timer, flags, new, old, 0, 0]) }
}

/// Handles `timer_gettime(timer, setting)` of a timer that the kernel keeps.
pub(crate) fn timer_gettime(args: [usize; 6]) -> isize {
    let mut now = ZERO;
    let address = &raw mut now as usize;
    // SAFETY: writes 32 bytes into `now`.
    let result = unsafe { syscall(nr::TIMER_GETTIME, [args[0], address, 0, 0, 0, 0]) };
    if result != 0 {
        return result;
    }
    store(args[1], now)
}

/// Stores a setting of the kernel at this address, in the form shown to the program.
fn store(address: usize, real: Setting) -> isize {
    // Times are rounded up, since zero would mean "disarmed".
    let shown = real.map(|one| match one.to_ns() {
        Some(ns) if ns > 0 => Timespec::from_ns(at_present_rate(ns).max(1)),
        _ => one,
    });
    for (index, one) in shown.into_iter().enumerate() {
        let at = address.wrapping_add(16 * index);
        // `rt_sigpending` writes eight bytes, and thereby tests whether the address is writable.
        for word in [at, at.wrapping_add(8)] {
            // SAFETY: the kernel checks the pointer.
            if unsafe { syscall(nr::RT_SIGPENDING, [word, 8, 0, 0, 0, 0]) } < 0 {
                return errno::EFAULT;
            }
        }
        // SAFETY: the memory is writable, as just tested.
        unsafe { (at as *mut Timespec).write_unaligned(one) };
    }
    0
}

/// `struct itimerspec`: interval and value of a timer.
type Setting = [Timespec; 2];

const ZERO: Setting = [Timespec { s: 0, ns: 0 }; 2];
/// Expiration that is never reached: a century of processor time.
const FAR_NS: i64 = 3_000_000_000_000_000_000;
