//! Older calls that newer ones supersede, and that newer architectures lack.

use timeloom_abi::calls::number;

use crate::abi::{NS_PER_S, Timespec};
use crate::clock;
use crate::files::utimensat;
use crate::poll::{self, Invalid, SignalMask, store_left};
use crate::select;
use crate::sys::{errno, readable, syscall};
use crate::wait::{Deadline, until};

/// Handles `time(out)`.
pub(crate) fn time(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(TIME, args) };
    if result < 0 {
        return result;
    }
    clock::timeloom_vdso_time(args[0] as *mut i64) as isize
}

/// Handles `poll(fds, count, timeout_ms)`.
pub(crate) fn poll(args: [usize; 6]) -> isize {
    let deadline = poll::after_ms(args[2]);
    until(deadline, 0, |slice| {
        poll::ppoll_slice(slice, args[0], args[1], 0)
    })
}

/// Handles `epoll_wait(epoll, events, most, timeout_ms)`.
pub(crate) fn epoll_wait(args: [usize; 6], mask: u64) -> isize {
    poll::epoll(
        args,
        poll::after_ms(args[3]),
        SignalMask::Unchanged.or(mask),
    )
}

/// Handles `select(count, read, write, except, timeval)`.
pub(crate) fn select(args: [usize; 6]) -> isize {
    let timeval = args[4];
    let Ok(deadline) = timeval_deadline(timeval) else {
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        return unsafe { syscall(SELECT, args) };
    };
    let result = select::wait(args, deadline, &SignalMask::Unchanged);
    store_left(timeval, deadline, 1_000);
    result
}

fn timeval_deadline(address: usize) -> Result<Deadline, Invalid> {
    if address == 0 {
        return Ok(Deadline::Never);
    }
    let given = Timespec::load(address).ok_or(Invalid)?;
    // Unlike a `timespec`, a `timeval` may have a second or more in its µs field.
    if given.s < 0 || given.ns < 0 {
        return Err(Invalid);
    }
    let ns = given
        .s
        .saturating_mul(NS_PER_S)
        .saturating_add(given.ns.saturating_mul(1000));
    Ok(Deadline::after_ns(ns))
}

/// Handles `utime(path, times)`, whose times are whole seconds.
pub(crate) fn utime(args: [usize; 6]) -> isize {
    let [path, times, ..] = args;
    set(HERE, path, times, 16, |times| {
        // SAFETY: the memory is readable.
        let [access, modification] = unsafe { (times as *const [i64; 2]).read_unaligned() };
        [access, modification].map(|s| Timespec { s, ns: 0 })
    })
}

/// Handles `utimes(path, times)`.
pub(crate) fn utimes(args: [usize; 6]) -> isize {
    set(HERE, args[0], args[1], 32, in_us)
}

/// Handles `futimesat(directory, path, times)`.
pub(crate) fn futimesat(args: [usize; 6]) -> isize {
    set(args[0], args[1], args[2], 32, in_us)
}

/// Converts two `struct timeval` at this address to the times of `utimensat`. Invalid times stay
/// invalid.
fn in_us(times: usize) -> [Timespec; 2] {
    // SAFETY: the memory is readable.
    let given = unsafe { (times as *const [Timespec; 2]).read_unaligned() };
    given.map(|time| match time.ns {
        us @ 0..1_000_000 => Timespec {
            s: time.s,
            ns: us * 1_000,
        },
        _ => Timespec { s: time.s, ns: -1 },
    })
}

/// Sets the times of a file to those at `times`, which occupy the given number of bytes. If `times`
/// is null, sets them to now.
fn set(
    directory: usize,
    path: usize,
    times: usize,
    bytes: usize,
    read: fn(usize) -> [Timespec; 2],
) -> isize {
    if times == 0 {
        return utimensat([directory, path, 0, 0, 0, 0]);
    }
    if !readable(times, bytes) {
        return errno::EFAULT;
    }
    let wanted = read(times);
    utimensat([directory, path, wanted.as_ptr() as usize, 0, 0, 0])
}

const TIME: usize = number("time");
const SELECT: usize = number("select");
/// AT_FDCWD: paths are relative to the working directory.
const HERE: usize = -100isize as usize;
