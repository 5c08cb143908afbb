//! Socket options that `rustix` lacks.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Type that the kernel may read as an option's value, byte for byte.
///
/// # Safety
/// The type must be plain old data. Its pointers, if any, must point to data that outlives the
/// call.
pub(crate) unsafe trait Value {}
// SAFETY: a number.
unsafe impl Value for libc::c_int {}
// SAFETY: a number.
unsafe impl Value for libc::c_uint {}
// SAFETY: numbers.
unsafe impl Value for libc::packet_mreq {}
// SAFETY: bytes.
unsafe impl Value for [u8; libc::IFNAMSIZ] {}

/// Sets a socket option whose value is a `T`.
pub(crate) fn set<T: Value>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: passes a value that may be read as bytes, with its size.
    done(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            core::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
}

/// Reads a socket option whose value is a 64-bit number.
pub(crate) fn get(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut u64,
) -> io::Result<()> {
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: passes a number to be written, with its size.
    done(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            core::ptr::from_mut(value).cast(),
            &raw mut length,
        )
    })
}

/// Converts the result of a call that returns -1 on failure.
pub(crate) fn done(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
