//! `poll`, `ppoll` and the `epoll_wait` family.

use crate::abi::{PollFd, Timespec};
use crate::kept::kernel_mask;
use crate::sys::{nr, readable, syscall};
use crate::wait::{Deadline, Turn, until};

/// `ppoll(fds, count, timeout, mask, mask_size)`.
pub(crate) fn ppoll(args: [usize; 6]) -> isize {
    let [fds, count, timeout, mask, mask_size, _] = args;
    let (Ok(deadline), Ok(mask)) = (deadline_of(timeout), SignalMask::load(mask, mask_size)) else {
        // SAFETY: invalid, so that the kernel refuses; it checks the pointers.
        return unsafe { syscall(nr::PPOLL, args) };
    };
    let result = until(deadline, 0, |turn| {
        ppoll_turn(turn, fds, count, mask.address())
    });
    store_left(timeout, deadline, 1);
    result
}

/// `epoll_pwait(epoll, events, count, timeout_ms, mask, mask_size)`.
pub(crate) fn epoll_pwait(args: [usize; 6]) -> isize {
    match SignalMask::load(args[4], args[5]) {
        Ok(mask) => epoll(args, after_ms(args[3]), &mask),
        // SAFETY: invalid, so that the kernel refuses.
        Err(Invalid) => unsafe { syscall(nr::EPOLL_PWAIT, args) },
    }
}

/// `epoll_pwait2(epoll, events, count, timeout, mask, mask_size)`.
pub(crate) fn epoll_pwait2(args: [usize; 6]) -> isize {
    match (deadline_of(args[3]), SignalMask::load(args[4], args[5])) {
        (Ok(deadline), Ok(mask)) => epoll(args, deadline, &mask),
        // SAFETY: invalid, so that the kernel refuses.
        _ => unsafe { syscall(nr::EPOLL_PWAIT2, args) },
    }
}

/// A wait for the events of `epoll(args[0], args[1], args[2])`. See the crate's
/// documentation for why the kernel's `epoll_pwait` only looks.
pub(crate) fn epoll(args: [usize; 6], deadline: Deadline, mask: &SignalMask) -> isize {
    // SAFETY: the kernel checks the pointer.
    let look = || unsafe { syscall(nr::EPOLL_PWAIT, [args[0], args[1], args[2], 0, 0, 8]) };
    loop {
        let ready = look();
        if ready != 0 {
            return ready;
        }
        let mut wanted = PollFd {
            fd: args[0] as i32,
            events: POLLIN,
            revents: 0,
        };
        let result = until(deadline, 0, |turn| {
            ppoll_turn(turn, &raw mut wanted as usize, 1, mask.address())
        });
        if result <= 0 {
            // Timed out or interrupted. Events that came with the deadline
            // are still returned, as the kernel does.
            return if result == 0 { look() } else { result };
        }
        // Another thread may have taken the event: then wait on.
    }
}

/// One turn of a wait for descriptors.
pub(crate) fn ppoll_turn(turn: &Turn, fds: usize, count: usize, mask: usize) -> isize {
    // The kernel writes the time left into its argument, hence a copy.
    let mut wall = turn.wall;
    let timeout = wall
        .as_mut()
        .map_or(0, |wall| wall as *mut Timespec as usize);
    // SAFETY: `fds` and `mask` are checked by the kernel, `wall` is ours.
    unsafe { turn.block(nr::PPOLL, [fds, count, timeout, mask, 8, 0]) }
}

/// A mask argument that is in force only while the call waits.
pub(crate) enum SignalMask {
    /// No mask given.
    Unchanged,
    /// The program's mask as the kernel is to have it: a handler that runs under the
    /// mask makes trapped calls too, and a trap while SIGSYS is blocked kills.
    During(u64),
}

/// The kernel would refuse this argument.
pub(crate) struct Invalid;

impl SignalMask {
    pub(crate) fn load(address: usize, size: usize) -> Result<Self, Invalid> {
        if address == 0 {
            return Ok(Self::Unchanged);
        }
        if size != 8 || !readable(address, 8) {
            return Err(Invalid);
        }
        // SAFETY: the kernel has just read it.
        let mask = unsafe { (address as *const u64).read_unaligned() };
        Ok(Self::During(kernel_mask(mask)))
    }

    /// For a system call's argument; valid as long as `self`.
    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Unchanged => 0,
            Self::During(mask) => mask as *const u64 as usize,
        }
    }
}

/// The deadline of a relative `timespec` argument; a null pointer is for ever.
pub(crate) fn deadline_of(timeout: usize) -> Result<Deadline, Invalid> {
    if timeout == 0 {
        return Ok(Deadline::Never);
    }
    Timespec::load(timeout)
        .and_then(Timespec::to_ns)
        .map(Deadline::after_ns)
        .ok_or(Invalid)
}

/// Writes the virtual time left into the program's timeout, as the kernel does
/// (and, as the kernel, without complaint when the place is read-only).
/// `unit_ns` is that of the second field: 1 for a `timespec`, 1000 for a
/// `timeval`.
pub(crate) fn store_left(timeout: usize, deadline: Deadline, unit_ns: i64) {
    if timeout == 0 {
        return;
    }
    let left = Timespec::from_ns(deadline.left_ns().unwrap_or(0));
    // SAFETY: `rt_sigpending` tries whether the place is writable.
    if unsafe { syscall(nr::RT_SIGPENDING, [timeout, 8, 0, 0, 0, 0]) } == 0 {
        let left = Timespec {
            s: left.s,
            ns: left.ns / unit_ns,
        };
        // SAFETY: writable, as just tried.
        unsafe { (timeout as *mut Timespec).write_unaligned(left) };
    }
}

/// A timeout of `int` milliseconds; below zero: for ever.
pub(crate) fn after_ms(timeout_ms: usize) -> Deadline {
    match timeout_ms as i32 {
        ..0 => Deadline::Never,
        ms => Deadline::after_ns(i64::from(ms) * 1_000_000),
    }
}

const POLLIN: i16 = 1;
