//! Waits for a socket up to the socket's timeout, in virtual time.

use super::{MSG_DONTWAIT, MSG_WAITALL, O_NONBLOCK, POLLIN, SO_RCVTIMEO, SOL_SOCKET};
use crate::abi::{PollFd, Timespec};
use crate::sys::{errno, nr, syscall};
use crate::wait::{Deadline, until};

/// Calls `attempt`, which receives data, without blocking until it succeeds or fails. If the socket
/// has no timeout, calls it once, with the program's flags.
pub(super) fn waiting(fd: usize, flags: usize, mut attempt: impl FnMut(Wait) -> isize) -> isize {
    match Timeout::of(fd, SO_RCVTIMEO, flags) {
        // If several parts must be filled completely (MSG_WAITALL), the kernel waits.
        Some(mut timeout) if flags & MSG_WAITALL == 0 => {
            timeout.retry(POLLIN, || attempt(Wait::Not))
        }
        _ => attempt(Wait::Natively),
    }
}

#[derive(Clone, Copy)]
pub(super) enum Wait {
    Natively,
    Not,
}

impl Wait {
    pub(super) fn flag(self) -> usize {
        match self {
            Self::Natively => 0,
            Self::Not => MSG_DONTWAIT,
        }
    }
}

/// Timeout of a socket call that may block.
pub(super) struct Timeout {
    pub(super) fd: usize,
    length_ns: i64,
    deadline: Deadline,
    /// Number of consecutive attempts for which the descriptor was ready but the call returned
    /// EAGAIN. Either other threads are faster, or the descriptor is ready for another operation.
    in_vain: u32,
}

impl Timeout {
    /// Returns the timeout of a call on the descriptor. Returns `None` for a socket without a
    /// timeout, for a call that does not block, and for descriptors other than sockets.
    pub(super) fn of(fd: usize, option: i32, flags: usize) -> Option<Self> {
        let mut length = Timespec { s: 0, ns: 0 };
        let mut bytes = 16u32;
        let args = [
            fd,
            SOL_SOCKET,
            option as usize,
            &raw mut length as usize,
            &raw mut bytes as usize,
            0,
        ];
        // SAFETY: the call writes 16 bytes into `length`.
        let result = unsafe { syscall(nr::GETSOCKOPT, args) };
        // The option is a `struct timeval`, in microseconds.
        length.ns = length.ns.wrapping_mul(1000);
        let length_ns = length.to_ns()?;
        if result != 0
            || length_ns == 0
            || flags & (MSG_DONTWAIT | MSG_ERRQUEUE) != 0
            || status_flags(fd) & O_NONBLOCK != 0
        {
            return None;
        }
        Some(Self {
            fd,
            length_ns,
            deadline: Deadline::after_ns(length_ns),
            in_vain: 0,
        })
    }

    /// Calls `attempt`, which must not block, until its result is not EAGAIN, or the timeout is
    /// over.
    pub(super) fn retry(&mut self, events: i16, mut attempt: impl FnMut() -> isize) -> isize {
        self.in_vain = 0;
        loop {
            match attempt() {
                errno::EAGAIN => {}
                result => return result,
            }
            self.in_vain = self.in_vain.saturating_add(1);
            if self.in_vain > 2 {
                match self.nap() {
                    0 => {}
                    result => return result,
                }
            }
            match self.wait_for(events) {
                1.. => {}
                result => return result,
            }
        }
    }

    /// Waits until the descriptor is ready. Returns a positive value if it is, and EAGAIN if the
    /// timeout is over.
    pub(super) fn wait_for(&self, events: i16) -> isize {
        let mut wanted = PollFd {
            fd: self.fd as i32,
            events,
            revents: 0,
        };
        let result = until(self.deadline, 0, |slice| {
            crate::poll::ppoll_slice(slice, &raw mut wanted as usize, 1, 0)
        });
        if result == 0 { errno::EAGAIN } else { result }
    }

    /// Sleeps for at most a millisecond of virtual time. Returns zero, EINTR, or EAGAIN if the
    /// timeout is over.
    pub(super) fn nap(&self) -> isize {
        let left_ns = self.deadline.left_ns().unwrap_or(0);
        if left_ns <= 0 {
            return errno::EAGAIN;
        }
        let nap_ns = if left_ns < NAP_NS { left_ns } else { NAP_NS };
        until(Deadline::after_ns(nap_ns), 0, |slice| {
            crate::poll::ppoll_slice(slice, 0, 0, 0)
        })
    }

    /// Restarts the timeout if the socket is a UNIX stream: there the timeout applies to each piece
    /// of the data. In TCP it applies to the whole data.
    pub(super) fn renew_if_unix(&mut self) {
        if number_option(self.fd, SO_DOMAIN) == Some(AF_UNIX) {
            self.deadline = Deadline::after_ns(self.length_ns);
        }
    }
}

pub(super) fn is_stream(fd: usize) -> bool {
    number_option(fd, SO_TYPE) == Some(SOCK_STREAM)
}

pub(super) fn number_option(fd: usize, option: i32) -> Option<i32> {
    let mut value = 0i32;
    let mut bytes = 4u32;
    let args = [
        fd,
        SOL_SOCKET,
        option as usize,
        &raw mut value as usize,
        &raw mut bytes as usize,
        0,
    ];
    // SAFETY: the call writes four bytes into `value`.
    let result = unsafe { syscall(nr::GETSOCKOPT, args) };
    (result == 0).then_some(value)
}

pub(super) fn status_flags(fd: usize) -> usize {
    // SAFETY: no pointers.
    let flags = unsafe { syscall(nr::FCNTL, [fd, F_GETFL, 0, 0, 0, 0]) };
    if flags < 0 { 0 } else { flags as usize }
}

pub(super) fn set_status_flags(fd: usize, flags: usize) {
    // SAFETY: no pointers.
    unsafe { syscall(nr::FCNTL, [fd, F_SETFL, flags, 0, 0, 0]) };
}

const NAP_NS: i64 = 1_000_000;
const SO_TYPE: i32 = 3;
const SO_DOMAIN: i32 = 39;
const SOCK_STREAM: i32 = 1;
const AF_UNIX: i32 = 1;
const F_GETFL: usize = 3;
const F_SETFL: usize = 4;
const MSG_ERRQUEUE: usize = 0x2000;
