//! Socket options, and switching a card's stamps on.

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::Stamping;

pub(super) fn open_socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option whose value is the plain structure `T`.
pub(super) fn set<T: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: a value of the option's type, passed with its size.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

pub(super) fn bind<T: Copy>(socket: &OwnedFd, address: &T) -> io::Result<()> {
    // SAFETY: a complete socket address of the socket's family, with its size.
    let answer = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(address).cast(),
            size_of_val(address) as libc::socklen_t,
        )
    };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Sends `bytes` to `address` in one piece.
pub(super) fn send_to<T: Copy>(socket: &OwnedFd, bytes: &[u8], address: &T) -> io::Result<()> {
    // SAFETY: a buffer and an address, each with its size, alive through the call.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
            std::ptr::from_ref(address).cast(),
            size_of_val(address) as libc::socklen_t,
        )
    };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Asks for stamps of what arrives and of every departure.
pub(super) fn stamp_both_ways(socket: &OwnedFd, stamping: Stamping) -> io::Result<()> {
    let flags = arrivals(stamping)
        | match stamping {
            Stamping::Software => libc::SOF_TIMESTAMPING_TX_SOFTWARE,
            Stamping::Hardware => libc::SOF_TIMESTAMPING_TX_HARDWARE,
        };
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
    // So that a stamp on the error queue wakes poll as POLLPRI, too.
    set(socket, libc::SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, &1)
}

const fn arrivals(stamping: Stamping) -> libc::c_uint {
    match stamping {
        Stamping::Software => libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
        Stamping::Hardware => {
            libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        }
    }
}

/// C structures for which all zeroes are a valid value.
///
/// # Safety
/// Plain old data without references.
pub(super) unsafe trait Plain: Copy {}
// SAFETY: integers and arrays of integers.
unsafe impl Plain for libc::sockaddr_ll {}
// SAFETY: as above.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: as above.
unsafe impl Plain for libc::ip_mreqn {}
// SAFETY: as above.
unsafe impl Plain for libc::sockaddr_in {}

/// A zeroed socket address or request.
pub(super) fn blank<T: Plain>() -> T {
    // SAFETY: what `Plain` promises.
    unsafe { zeroed() }
}
