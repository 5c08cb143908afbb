//! Calls that came before others which do the same and more, and that newer
//! architectures do not have.

use timeloom_calls::number;

use crate::abi::{NS_PER_S, Timespec};
use crate::clock;
use crate::files::utimensat;
use crate::poll::{self, Invalid, SignalMask, store_left};
use crate::select;
use crate::sys::syscall;
use crate::wait::{Deadline, until};

/// `time(out)`.
pub(crate) fn time(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(TIME, args) };
    if result < 0 {
        return result;
    }
    clock::timeloom_vdso_time(args[0] as *mut i64) as isize
}

/// `poll(fds, count, timeout_ms)`.
pub(crate) fn poll(args: [usize; 6]) -> isize {
    let deadline = poll::after_ms(args[2]);
    until(deadline, 0, |turn| {
        poll::ppoll_turn(turn, args[0], args[1], 0)
    })
}

/// `epoll_wait(epoll, events, most, timeout_ms)`.
pub(crate) fn epoll_wait(args: [usize; 6], mask: u64) -> isize {
    poll::epoll(
        args,
        poll::after_ms(args[3]),
        SignalMask::Unchanged.or(mask),
    )
}

/// `select(count, read, write, except, timeval)`.
pub(crate) fn select(args: [usize; 6]) -> isize {
    let timeval = args[4];
    let Ok(deadline) = timeval_deadline(timeval) else {
        // SAFETY: invalid, so that the kernel refuses.
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
    // Unlike a `timespec`, a `timeval` may carry more than a second of µs.
    if given.s < 0 || given.ns < 0 {
        return Err(Invalid);
    }
    let ns = given
        .s
        .saturating_mul(NS_PER_S)
        .saturating_add(given.ns.saturating_mul(1000));
    Ok(Deadline::after_ns(ns))
}

/// `utime(path, times)` and `utimes(path, times)` without times.
pub(crate) fn utimes(args: [usize; 6]) -> isize {
    set_to_now(HERE, args[0])
}

/// `futimesat(directory, path, times)` without times.
pub(crate) fn futimesat(args: [usize; 6]) -> isize {
    set_to_now(args[0], args[1])
}

fn set_to_now(directory: usize, path: usize) -> isize {
    utimensat([directory, path, 0, 0, 0, 0])
}

const TIME: usize = number("time");
const SELECT: usize = number("select");
/// AT_FDCWD.
const HERE: usize = -100isize as usize;
