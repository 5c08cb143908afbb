//! Timed waits for message queues, semaphores, signals and several datagrams.

use crate::abi::Timespec;
use crate::clock::{machine_realtime_ns, monotonic_ns, now_ns};
use crate::intercepted;
use crate::poll::{deadline_of, store_left};
use crate::socket::{MESSAGE_BYTES, receive_one};
use crate::sys::{errno, nr, readable, syscall};
use crate::wait::{Deadline, WaitSlice, until};

/// Handles `mq_timedsend` and `mq_timedreceive`, whose timeout is absolute, on CLOCK_REALTIME. The
/// kernel restarts both calls after a freeze.
pub(crate) fn message_queue(call: usize, args: [usize; 6]) -> isize {
    let Some(deadline) = absolute(args[4], 0) else {
        // SAFETY: the arguments are invalid, so the kernel refuses the call; it checks the
        // pointers.
        return unsafe { syscall(call, args) };
    };
    until(deadline, errno::ETIMEDOUT, |slice| {
        let wall = Timespec::from_ns(slice.wall_ns.saturating_add(machine_realtime_ns()));
        // SAFETY: the kernel checks the program's pointers; `wall` is in the image's memory.
        unsafe {
            slice.block(
                call,
                [
                    args[0],
                    args[1],
                    args[2],
                    args[3],
                    &raw const wall as usize,
                    0,
                ],
            )
        }
    })
}

/// Handles `futex_waitv(words, count, flags, timeout, clock)` with a timeout.
pub(crate) fn futex_waitv(args: [usize; 6]) -> isize {
    let clock = args[4] as u32;
    let deadline = match clock {
        0 | 1 => absolute(args[3], clock),
        _ => None,
    };
    let Some(deadline) = deadline else {
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        return unsafe { syscall(nr::FUTEX_WAITV, args) };
    };
    until(deadline, errno::ETIMEDOUT, |slice| {
        let wall = Timespec::from_ns(slice.wall_ns.saturating_add(monotonic_ns() as i64));
        let monotonic = 1;
        // SAFETY: the kernel checks the program's pointers; `wall` is in the image's memory.
        unsafe {
            slice.block(
                nr::FUTEX_WAITV,
                [
                    args[0],
                    args[1],
                    args[2],
                    &raw const wall as usize,
                    monotonic,
                    0,
                ],
            )
        }
    })
}

/// Handles `futex_wait(word, value, mask, flags, timeout, clock)` with a timeout.
pub(crate) fn futex_wait(args: [usize; 6]) -> isize {
    let [word, value, mask, flags, timeout, clock] = args;
    let deadline = match clock as u32 {
        clock @ (0 | 1) => absolute(timeout, clock),
        _ => None,
    };
    let Some(deadline) = deadline else {
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        return unsafe { syscall(nr::FUTEX_WAIT, args) };
    };
    until(deadline, errno::ETIMEDOUT, |slice| {
        let wall = Timespec::from_ns(slice.wall_ns.saturating_add(monotonic_ns() as i64));
        let wall = &raw const wall as usize;
        let monotonic = 1;
        // SAFETY: the kernel checks the program's pointer; `wall` is in the image's memory.
        unsafe { slice.block(nr::FUTEX_WAIT, [word, value, mask, flags, wall, monotonic]) }
    })
}

/// Handles `rt_sigtimedwait(set, info, timeout, size)`, with or without a timeout.
pub(crate) fn rt_sigtimedwait(mut args: [usize; 6]) -> isize {
    let Some(set) = intercepted::awaited(args[0]) else {
        return relative(nr::RT_SIGTIMEDWAIT, args, 2);
    };
    args[0] = &raw const set as usize;
    let result = relative(nr::RT_SIGTIMEDWAIT, args, 2);
    intercepted::renamed(result, args[1])
}

/// Handles `semtimedop(id, operations, count, timeout)`, and `semop`, which has the first three of
/// these arguments.
pub(crate) fn semtimedop(args: [usize; 6]) -> isize {
    relative(nr::SEMTIMEDOP, args, 3)
}

/// Makes a call whose argument number `timeout` points to a relative timeout.
fn relative(call: usize, args: [usize; 6], timeout: usize) -> isize {
    let given = args[timeout];
    let deadline = if given == 0 {
        Deadline::Never
    } else {
        match Timespec::load(given).and_then(Timespec::to_ns) {
            Some(ns) => Deadline::after_ns(ns),
            // SAFETY: the arguments are invalid, so the kernel refuses the call.
            None => return unsafe { syscall(call, args) },
        }
    };
    until(deadline, errno::EAGAIN, |slice: &WaitSlice| {
        let mut args = args;
        args[timeout] = slice
            .wall
            .as_ref()
            .map_or(0, |wall| wall as *const Timespec as usize);
        // SAFETY: the kernel checks the program's pointers; `wall` is in the image's memory.
        unsafe { slice.block(call, args) }
    })
}

/// Handles `recvmmsg(fd, messages, count, flags, timeout)`. The kernel checks the timeout only
/// after each message; so does this function, on the virtual clock.
pub(crate) fn recvmmsg(args: [usize; 6]) -> isize {
    let [fd, messages, count, flags, timeout, _] = args;
    let Ok(deadline) = deadline_of(timeout) else {
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        return unsafe { syscall(nr::RECVMMSG, args) };
    };
    let mut flags = flags;
    let mut received = 0;
    while received < count {
        let at = messages.wrapping_add(received * MESSAGE_BYTES);
        let result = receive_one(fd, at, flags & !MSG_WAITFORONE);
        if result < 0 && received == 0 {
            return result;
        }
        if result <= 0 {
            break;
        }
        received += 1;
        if flags & MSG_WAITFORONE != 0 {
            flags |= MSG_DONTWAIT;
        }
        if deadline.left_ns().is_some_and(|left| left <= 0) {
            break;
        }
    }
    store_left(timeout, deadline, 1);
    received as isize
}

/// Handles `sysinfo(info)`: replaces the uptime by the virtual one.
pub(crate) fn sysinfo(args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::SYSINFO, args) };
    if result == 0 {
        let uptime_s = now_ns(7).unwrap_or(0) / crate::abi::NS_PER_S;
        // SAFETY: the kernel has just written there; `uptime` comes first.
        unsafe { (args[0] as *mut i64).write_unaligned(uptime_s) };
    }
    result
}

/// Returns the deadline for an absolute `timespec` at this address, on the clock `id`.
fn absolute(address: usize, id: u32) -> Option<Deadline> {
    if !readable(address, 16) {
        return None;
    }
    let wanted_ns = Timespec::load(address).and_then(Timespec::to_ns)?;
    Deadline::on_clock(id, wanted_ns)
}

const MSG_DONTWAIT: usize = 0x40;
const MSG_WAITFORONE: usize = 0x1_0000;
