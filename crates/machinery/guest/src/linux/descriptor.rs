//! A descriptor from one process to another, over a pair of sockets.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::error::{GuestError, check};

pub(crate) fn socket_pair() -> Result<(OwnedFd, OwnedFd), GuestError> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    check(
        // SAFETY: writes two descriptors.
        unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) }.into(),
        "making a socket pair",
    )?;
    // SAFETY: just created and owned by nobody else.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Room for one descriptor in an ancillary message, aligned.
#[repr(C, align(8))]
struct Ancillary([u8; 24]);

fn message(byte: &mut libc::iovec, ancillary: &mut Ancillary) -> libc::msghdr {
    // SAFETY: plain data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = byte;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    header.msg_controllen = ancillary.0.len();
    header
}

/// # Safety
/// Both descriptors are open. (It makes only one system call: a forked child may.)
pub(crate) unsafe fn send_descriptor(socket: RawFd, descriptor: RawFd) {
    let mut text = [0u8; 1];
    let mut byte = libc::iovec {
        iov_base: text.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut ancillary = Ancillary([0; 24]);
    let header = message(&mut byte, &mut ancillary);
    // SAFETY: the header describes the buffers above.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        (*control).cmsg_level = libc::SOL_SOCKET;
        (*control).cmsg_type = libc::SCM_RIGHTS;
        (*control).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(control)
            .cast::<RawFd>()
            .write_unaligned(descriptor);
        libc::sendmsg(socket, &raw const header, 0);
    }
}

/// `None` when the child died before it got that far.
pub(crate) fn receive_descriptor(socket: RawFd) -> Option<OwnedFd> {
    receive(socket)?.1
}

/// A byte, and a descriptor if one came with it; `None` when the other end was closed.
pub(crate) fn receive(socket: RawFd) -> Option<(u8, Option<OwnedFd>)> {
    let mut text = [0u8; 1];
    let mut byte = libc::iovec {
        iov_base: text.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut ancillary = Ancillary([0; 24]);
    let mut header = message(&mut byte, &mut ancillary);
    // SAFETY: the header describes the buffers above.
    let descriptor = unsafe {
        if libc::recvmsg(socket, &raw mut header, libc::MSG_CMSG_CLOEXEC) != 1 {
            return None;
        }
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        (!control.is_null() && (*control).cmsg_type == libc::SCM_RIGHTS).then(|| {
            OwnedFd::from_raw_fd(libc::CMSG_DATA(control).cast::<RawFd>().read_unaligned())
        })
    };
    Some((text[0], descriptor))
}
