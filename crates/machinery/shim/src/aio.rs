//! Handlers of `io_getevents` and `io_pgetevents`, which wait for completions of asynchronous input
//! and output.
//!
//! A freeze interrupts both calls in the kernel. `io_getevents` then returns EINTR, which
//! `WaitSlice::block` hides; `io_pgetevents` starts anew, with the whole timeout.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::abi::{NS_PER_S, Timespec};
use crate::clock::page;
use crate::poll::SignalMask;
use crate::sys::{nr, readable, syscall};
use crate::wait::{CUT_SHORT, Deadline, WaitSlice, until};

/// Handles `io_getevents(context, least, most, events, timeout)`.
pub(crate) fn io_getevents(args: [usize; 6]) -> isize {
    match deadline_of(args[4]) {
        Some(deadline) => Wait { args, deadline }.complete(&SignalMask::Unchanged),
        // SAFETY: the arguments are invalid, so the kernel refuses the call; it checks the
        // pointers.
        None => unsafe { syscall(nr::IO_GETEVENTS, args) },
    }
}

/// Handles `io_pgetevents(context, least, most, events, timeout, mask)`.
pub(crate) fn io_pgetevents(args: [usize; 6]) -> isize {
    match (deadline_of(args[4]), load_mask(args[5])) {
        (Some(deadline), Some(mask)) => Wait { args, deadline }.complete(&mask),
        // SAFETY: the same as above.
        _ => unsafe { syscall(nr::IO_PGETEVENTS, args) },
    }
}

struct Wait {
    args: [usize; 6],
    deadline: Deadline,
}

impl Wait {
    /// Waits until there are as many events as requested. The program's array already holds the
    /// events of earlier slices.
    fn complete(&self, mask: &SignalMask) -> isize {
        let [context, least, most, events, ..] = self.args;
        if (least as isize) < 0 || (most as isize) < (least as isize) {
            // SAFETY: the arguments are invalid, so the kernel refuses the call.
            return unsafe { syscall(nr::IO_GETEVENTS, [context, least, most, events, 0, 0]) };
        }
        let mut got = 0usize;
        let result = until(self.deadline, TIME_IS_OVER, |slice| {
            let before = page().epoch.load(Acquire);
            let at = events.wrapping_add(got.wrapping_mul(EVENT_BYTES));
            let left = [
                context,
                least.saturating_sub(got),
                most.saturating_sub(got),
                at,
                0,
                0,
            ];
            let result = one_slice(slice, left, mask);
            if result == CUT_SHORT {
                return CUT_SHORT;
            }
            // This distinguishes an interruption by the supervisor from one by a handler of the
            // program.
            let disturbed = page().epoch.load(Acquire) != before;
            if result < 0 {
                return match (got, result) {
                    (0, error) => error,
                    _ => got as isize,
                };
            }
            got = got.saturating_add(result as usize);
            let is_short = !is_whole(slice, mask);
            if got >= least || !(result == 0 || disturbed || is_short) {
                // There are enough events; or there are some, and the time was over or a handler
                // ran.
                got as isize
            } else if slice.wall.is_none() {
                CUT_SHORT
            } else {
                TIME_IS_OVER // this slice's, and perhaps the wait's
            }
        });
        if result == TIME_IS_OVER {
            got as isize
        } else {
            result
        }
    }
}

/// Returns true if the slice lasts until the deadline at the clock's present rate.
fn is_whole(slice: &WaitSlice, mask: &SignalMask) -> bool {
    let is_steered = page().steered.load(Relaxed) != 0;
    slice.wall.is_none() || !(is_steered || matches!(mask, SignalMask::During(_)))
}

fn one_slice(slice: &WaitSlice, mut args: [usize; 6], mask: &SignalMask) -> isize {
    let mut wall = slice.wall;
    let (number, masked) = match mask {
        SignalMask::Unchanged => (nr::IO_GETEVENTS, [0; 2]),
        SignalMask::During(_) => {
            // After a freeze, the kernel starts such a wait anew, so it must be short.
            wall = wall.map(|_| Timespec::from_ns(slice.wall_ns.min(LONGEST_MASKED_NS)));
            (nr::IO_PGETEVENTS, [mask.address(), 8])
        }
    };
    args[4] = wall
        .as_ref()
        .map_or(0, |wall| wall as *const Timespec as usize);
    if masked[0] != 0 {
        args[5] = &raw const masked as usize;
    }
    // SAFETY: the kernel checks the program's pointers; the others are the image's.
    unsafe { slice.block(number, args) }
}

/// Returns the deadline for a relative timeout at this address; a null pointer means none. The
/// kernel accepts any `timespec` here.
fn deadline_of(address: usize) -> Option<Deadline> {
    if address == 0 {
        return Some(Deadline::Never);
    }
    let Timespec { s, ns } = Timespec::load(address)?;
    let ns = s.saturating_mul(NS_PER_S).saturating_add(ns);
    // The kernel takes a negative timeout as none: the sum with the present time is less than the
    // present time, which it takes for an overflow.
    Some(match ns {
        ..0 => Deadline::Never,
        _ => Deadline::after_ns(ns),
    })
}

/// Loads the mask from a `struct __aio_sigset` at this address.
fn load_mask(address: usize) -> Option<SignalMask> {
    if address == 0 {
        return Some(SignalMask::Unchanged);
    }
    if !readable(address, 16) {
        return None;
    }
    // SAFETY: the kernel has just read both ends of the structure.
    let [mask, size] = unsafe { (address as *const [usize; 2]).read_unaligned() };
    SignalMask::load(mask, size).ok()
}

/// Result for a slice whose time is over before enough events arrived. No call returns this value.
const TIME_IS_OVER: isize = CUT_SHORT - 1;
/// Size of a `struct io_event`.
const EVENT_BYTES: usize = 32;
const LONGEST_MASKED_NS: i64 = 20_000_000;
