//! Socket options that `rustix` lacks.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Types that the kernel may read as an option's value, byte for byte.
///
/// # Safety
/// Plain old data whose pointers, if any, lead to data that lives through the call.
pub(crate) unsafe trait Value {}
// SAFETY: a number.
unsafe impl Value for libc::c_int {}
// SAFETY: a number.
unsafe impl Value for libc::c_uint {}
// SAFETY: numbers.
unsafe impl Value for libc::packet_mreq {}
// SAFETY: bytes.
unsafe impl Value for [u8; libc::IFNAMSIZ] {}

/// Sets an option whose value is a `T`.
pub(crate) fn set<T: Value>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: a value that may be read as bytes, with its size.
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

/// Reads an option whose value is a number of this size.
pub(crate) fn get(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut u64,
) -> io::Result<()> {
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: a number to be written, with its size.
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
