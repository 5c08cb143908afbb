//! Handlers of `poll`, `ppoll` and the `epoll_wait` family.

use crate::abi::Timespec;
use crate::intercepted::kernel_mask;
use crate::sys::{errno, nr, readable, syscall};
use crate::wait::{Deadline, WaitSlice, until};

/// Handles `ppoll(fds, count, timeout, mask, mask_size)`.
pub(crate) fn ppoll(args: [usize; 6]) -> isize {
    let [fds, count, timeout, mask, mask_size, _] = args;
    let (Ok(deadline), Ok(mask)) = (deadline_of(timeout), SignalMask::load(mask, mask_size)) else {
        // SAFETY: the arguments are invalid, so the kernel refuses the call; it checks the
        // pointers.
        return unsafe { syscall(nr::PPOLL, args) };
    };
    let result = until(deadline, 0, |slice| {
        ppoll_slice(slice, fds, count, mask.address())
    });
    store_left(timeout, deadline, 1);
    result
}

/// Handles `epoll_pwait(epoll, events, count, timeout_ms, mask, mask_size)`. If the program gives
/// no mask, waits under the mask `usual`.
pub(crate) fn epoll_pwait(args: [usize; 6], usual: u64) -> isize {
    match SignalMask::load(args[4], args[5]) {
        Ok(mask) => epoll(args, after_ms(args[3]), mask.or(usual)),
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        Err(Invalid) => unsafe { syscall(nr::EPOLL_PWAIT, args) },
    }
}

/// Handles `epoll_pwait2(epoll, events, count, timeout, mask, mask_size)`, like [`epoll_pwait`].
pub(crate) fn epoll_pwait2(args: [usize; 6], usual: u64) -> isize {
    match (deadline_of(args[3]), SignalMask::load(args[4], args[5])) {
        (Ok(deadline), Ok(mask)) => epoll(args, deadline, mask.or(usual)),
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        _ => unsafe { syscall(nr::EPOLL_PWAIT2, args) },
    }
}

/// Waits for events of the epoll set `args[0]`, up to `deadline`, under `mask`. The first three of
/// `args` are those of `epoll_pwait`.
///
/// Uses the kernel's own queue, in which an exclusive event wakes one thread (EPOLLEXCLUSIVE, or
/// several threads that wait on one set). Between slices all signals are blocked, as at the start
/// of the SIGSYS handler. A signal handled outside of the wait would not end the wait.
pub(crate) fn epoll(args: [usize; 6], deadline: Deadline, mask: u64) -> isize {
    let mask = &raw const mask as usize;
    let in_ms = |slice: &WaitSlice, timeout_ms: usize| {
        let args = [args[0], args[1], args[2], timeout_ms, mask, 8];
        // SAFETY: the kernel checks the program's pointer; the mask is in the image's memory.
        unsafe { slice.block(nr::EPOLL_PWAIT, args) }
    };
    until(deadline, 0, |slice| {
        let Some(wall) = &slice.wall else {
            return in_ms(slice, usize::MAX);
        };
        let wall = wall as *const Timespec as usize;
        let args = [args[0], args[1], args[2], wall, mask, 8];
        // SAFETY: the same as above; `wall` is in the image's memory.
        match unsafe { slice.block(nr::EPOLL_PWAIT2, args) } {
            // A filter of the program may allow only the older call, `epoll_pwait`.
            errno::ENOSYS | errno::EPERM => {
                let ms = slice.wall_ns.saturating_add(999_999) / 1_000_000;
                in_ms(slice, ms.min(i64::from(i32::MAX)) as usize)
            }
            result => result,
        }
    })
}

/// Performs one slice of a wait for descriptors. The other arguments are those of `ppoll`.
pub(crate) fn ppoll_slice(slice: &WaitSlice, fds: usize, count: usize, mask: usize) -> isize {
    // The kernel writes the remaining time into its argument, so a copy is passed.
    let mut wall = slice.wall;
    let timeout = wall
        .as_mut()
        .map_or(0, |wall| wall as *mut Timespec as usize);
    // SAFETY: the kernel checks `fds` and `mask`; `wall` is in the image's memory.
    unsafe { slice.block(nr::PPOLL, [fds, count, timeout, mask, 8, 0]) }
}

/// Signal mask that is in force only while a call waits.
pub(crate) enum SignalMask {
    /// The program gave no mask.
    Unchanged,
    /// The program's mask, converted to the kernel's form. A handler that runs under the mask makes
    /// trapped calls too, and a trap while SIGSYS is blocked kills the process.
    During(u64),
}

/// Error for a mask argument that the kernel would refuse.
pub(crate) struct Invalid;

impl SignalMask {
    pub(crate) fn load(address: usize, size: usize) -> Result<Self, Invalid> {
        if address == 0 {
            return Ok(Self::Unchanged);
        }
        if size != 8 || !readable(address, 8) {
            return Err(Invalid);
        }
        // SAFETY: the kernel has just read the mask.
        let mask = unsafe { (address as *const u64).read_unaligned() };
        Ok(Self::During(kernel_mask(mask)))
    }

    /// Returns the mask in the kernel's form, or `usual` if the program gave none.
    pub(crate) fn or(&self, usual: u64) -> u64 {
        match self {
            Self::Unchanged => usual,
            Self::During(mask) => *mask,
        }
    }

    /// Returns the address to pass to a system call, which is valid as long as `self`. Returns null
    /// if the program gave no mask.
    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Unchanged => 0,
            Self::During(mask) => mask as *const u64 as usize,
        }
    }
}

/// Returns the deadline for a relative `timespec` at address `timeout`; a null pointer means none.
pub(crate) fn deadline_of(timeout: usize) -> Result<Deadline, Invalid> {
    if timeout == 0 {
        return Ok(Deadline::Never);
    }
    Timespec::load(timeout)
        .and_then(Timespec::to_ns)
        .map(Deadline::after_ns)
        .ok_or(Invalid)
}

/// Writes the remaining virtual time into the program's timeout, as the kernel does. Like the
/// kernel, does nothing if the memory is read-only. `unit_ns` is the unit of the second field in
/// nanoseconds: 1 for a `timespec`, 1000 for a `timeval`.
pub(crate) fn store_left(timeout: usize, deadline: Deadline, unit_ns: i64) {
    if timeout == 0 {
        return;
    }
    let left = Timespec::from_ns(deadline.left_ns().unwrap_or(0));
    // SAFETY: `rt_sigpending` tests that the memory is writable.
    if unsafe { syscall(nr::RT_SIGPENDING, [timeout, 8, 0, 0, 0, 0]) } == 0 {
        let left = Timespec {
            s: left.s,
            ns: left.ns / unit_ns,
        };
        // SAFETY: the memory is writable, as just tested.
        unsafe { (timeout as *mut Timespec).write_unaligned(left) };
    }
}

/// Returns the deadline for a timeout that is an `int` in milliseconds; a negative value means
/// none.
pub(crate) fn after_ms(timeout_ms: usize) -> Deadline {
    match timeout_ms as i32 {
        ..0 => Deadline::Never,
        ms => Deadline::after_ns(i64::from(ms) * 1_000_000),
    }
}
