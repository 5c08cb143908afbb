//! Processor time: CPU clocks, `times`, `getrusage`.
//!
//! The kernel counts processor time in real seconds. In a session at a tenth of the speed, programs
//! would therefore see a processor ten times slower than theirs, or a usage above 100 %. Like all
//! other time, processor time is therefore divided by the dilation. A pause needs no correction: a
//! thread that does not run is not charged.
//!
//! As long as a session keeps its rate, one division suffices. After a change of the rate, the
//! processor time used before the change still counts at the old rate. Only the supervisor knows
//! that amount, so the image asks it.
//!
//! If computing takes no virtual time, processor time is zero: a program that sends its processor
//! time to another would otherwise send a different value in each run. A program that computes
//! until the clock moves is given steps of time; it is shown the sum of these as processor time.

use timeloom_abi::calls::ImageCall;
pub(crate) use timeloom_abi::calls::counts_processor as is_cpu_clock;

use crate::abi::NS_PER_S;
use crate::clock::{now_ns, page};
use crate::sys::{ask, errno, nr, readable, syscall};

/// Returns the value to show of CPU clock `id`, in nanoseconds, for the kernel's value `real_ns`.
pub(crate) fn shown_ns(id: u32, real_ns: i64) -> i64 {
    shown(real_ns, ImageCall::CpuTime { clock: id, real_ns })
}

/// Returns the value to show of a kernel timer's CPU clock, in nanoseconds, for the kernel's value
/// `real_ns`.
pub(crate) fn shown_by_timer_ns(timer: usize, real_ns: i64) -> i64 {
    let timer = timer as i32;
    shown(real_ns, ImageCall::CpuTimeOfTimer { timer, real_ns })
}

fn shown(real_ns: i64, question: ImageCall<usize>) -> i64 {
    let (_, changed) = page().past.dilation();
    if changed {
        let shown = ask(question);
        if shown >= 0 {
            return if_it_takes_time(shown as i64);
        }
    }
    of_ended(real_ns)
}

/// Returns the value to show for the processor time of processes that have ended, in nanoseconds.
fn of_ended(real_ns: i64) -> i64 {
    if_it_takes_time(at_present_rate(real_ns))
}

/// Returns `used_ns`, limited to the page's maximum if computing takes no virtual time.
fn if_it_takes_time(used_ns: i64) -> i64 {
    match page().most_processor_time_ns() {
        Some(most_ns) => used_ns.min(most_ns),
        None => used_ns,
    }
}

/// Converts real processor time to shown time at the present rate, in nanoseconds. (Accurate to a
/// nanosecond for a hundred days of processor time.)
pub(crate) fn at_present_rate(real_ns: i64) -> i64 {
    let (dilation, _) = page().past.dilation();
    if dilation == 1.0 || dilation <= 0.0 {
        return real_ns;
    }
    (real_ns as f64 / dilation) as i64
}

/// Handles `times(buffer)`, whose result counts hundredths of a second of virtual time.
pub(crate) fn times(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::TIMES, args) };
    if result < 0 {
        return result;
    }
    if args[0] != 0 {
        let buffer = args[0] as *mut [[i64; 2]; 2];
        // SAFETY: the kernel has just written these 32 bytes.
        let [own, children] = unsafe { buffer.read_unaligned() };
        let times = [
            scaled(own, TICK_NS, |ns| shown_ns(PROCESS, ns)),
            scaled(children, TICK_NS, of_ended),
        ];
        // SAFETY: as above.
        unsafe { buffer.write_unaligned(times) };
    }
    (now_ns(7).unwrap_or(0) / TICK_NS) as isize
}

/// Handles `getrusage(who, usage)`.
pub(crate) fn getrusage(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::GETRUSAGE, args) };
    if result == 0 {
        let id = match args[0] as i32 {
            RUSAGE_SELF => Some(PROCESS),
            RUSAGE_THREAD => Some(THREAD),
            _ => None,
        };
        // SAFETY: the kernel has just written there.
        unsafe { scale_usage(args[1], id) };
    }
    result
}

/// Handles `wait4(pid, status, options, usage)`, which returns the resource usage of the ended
/// child.
pub(crate) fn wait4(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointers.
    let result = unsafe { syscall(nr::WAIT4, args) };
    // Zero means that no child has ended yet.
    if result > 0 {
        // SAFETY: the kernel has just written there.
        unsafe { scale_usage(args[3], None) };
    }
    result
}

/// Handles `waitid(which, id, info, options, usage)`, which returns the resource usage of the ended
/// child.
pub(crate) fn waitid(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointers.
    let result = unsafe { syscall(nr::WAITID, args) };
    // The result is zero on success. If no child has ended yet, the structure is zero too.
    if result == 0 {
        // SAFETY: the kernel has just written there.
        unsafe { scale_usage(args[4], None) };
    }
    result
}

/// Handles `setitimer(which, new, old)` for a timer of processor time. The kernel keeps the timer;
/// its intervals are converted at the present rate. (An armed timer keeps its length in real
/// time when the rate changes.)
pub(crate) fn setitimer(args: [usize; 6]) -> isize {
    let [which, new, old, ..] = args;
    if new != 0 && !readable(new, size_of::<IntervalTimer>()) {
        return errno::EFAULT;
    }
    let wanted = if new == 0 {
        [[0; 2]; 2]
    } else {
        // SAFETY: the kernel has just read both ends of the structure.
        let given = unsafe { (new as *const IntervalTimer).read_unaligned() };
        // Values that the kernel would refuse stay unchanged.
        let valid = given
            .iter()
            .all(|[s, us]| *s >= 0 && (0..1_000_000).contains(us));
        if valid {
            given.map(|one| in_us(one, to_real))
        } else {
            given
        }
    };
    let address = if new == 0 {
        0
    } else {
        &raw const wanted as usize
    };
    // SAFETY: the kernel checks `old`; the new setting is in the image's memory.
    let result = unsafe { syscall(nr::SETITIMER, [which, address, old, 0, 0, 0]) };
    if result == 0 && old != 0 {
        // SAFETY: the kernel has just written there.
        unsafe { show_timer(old) };
    }
    result
}

/// Handles `getitimer(which, value)` for a timer of processor time.
pub(crate) fn getitimer(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::GETITIMER, args) };
    if result == 0 {
        // SAFETY: the kernel has just written there.
        unsafe { show_timer(args[1]) };
    }
    result
}

/// Converts a kernel timer's setting at this address to the form shown to the program.
///
/// # Safety
/// A `struct itimerval` must be readable and writable at this address.
unsafe fn show_timer(address: usize) {
    let timer = address as *mut IntervalTimer;
    // SAFETY: guaranteed by the caller.
    let real = unsafe { timer.read_unaligned() };
    // Rounded up, since zero would mean "disarmed".
    let shown = real.map(|one| in_us(one, |us| (at_present_rate(us * 1_000) + 999) / 1_000));
    // SAFETY: as above.
    unsafe { timer.write_unaligned(shown) };
}

/// Converts shown processor time to real processor time at the present rate. The unit is arbitrary.
pub(crate) fn to_real(shown: i64) -> i64 {
    let (dilation, _) = page().past.dilation();
    let real = shown as f64 * dilation;
    // The result is rounded up, as the kernel rounds timers.
    let whole = real as i64;
    if (whole as f64) < real {
        whole + 1
    } else {
        whole
    }
}

/// Applies a function of microseconds to a `struct timeval`.
fn in_us([s, us]: [i64; 2], change: impl Fn(i64) -> i64) -> [i64; 2] {
    let us = change(s.saturating_mul(1_000_000).saturating_add(us));
    [us / 1_000_000, us % 1_000_000]
}

/// `struct itimerval`: interval and value, in seconds and microseconds.
type IntervalTimer = [[i64; 2]; 2];

/// Converts the user and system time of a resource usage to the values shown to the program. `id`
/// is the CPU clock of their sum; `None` for processes that have ended.
///
/// # Safety
/// A `struct rusage` must be readable and writable at this address.
unsafe fn scale_usage(address: usize, id: Option<u32>) {
    let usage = address as *mut [[i64; 2]; 2];
    // SAFETY: guaranteed by the caller. User and system time come first.
    let times = unsafe { usage.read_unaligned() };
    let us = times.map(|[s, us]| s.wrapping_mul(1_000_000).wrapping_add(us));
    let us = scaled(us, 1_000, |ns| match id {
        Some(id) => shown_ns(id, ns),
        None => of_ended(ns),
    });
    let times = us.map(|us| [us / 1_000_000, us % 1_000_000]);
    // SAFETY: as above.
    unsafe { usage.write_unaligned(times) };
}

/// Converts user and system time, in units of `unit_ns`, to the values shown to the program. The
/// kernel's CPU clock counts their sum. `shown` converts the sum, which is then divided in the
/// original ratio.
fn scaled([user, system]: [i64; 2], unit_ns: i64, shown: impl Fn(i64) -> i64) -> [i64; 2] {
    let sum = user.wrapping_add(system);
    let total = shown(sum.wrapping_mul(unit_ns)) / unit_ns;
    if sum <= 0 || total == sum {
        return [user, system];
    }
    let user = (user as f64 * total as f64 / sum as f64) as i64;
    [user, total - user]
}

const PROCESS: u32 = 2;
const THREAD: u32 = 3;
const RUSAGE_SELF: i32 = 0;
const RUSAGE_THREAD: i32 = 1;
/// Unit of the results of `times`, in nanoseconds: USER_HZ is 100 everywhere.
const TICK_NS: i64 = NS_PER_S / 100;
