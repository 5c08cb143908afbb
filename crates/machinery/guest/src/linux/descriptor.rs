//! Transfer of a descriptor between processes over a pair of sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use timeloom_sys::descriptor;
pub(crate) use timeloom_sys::descriptor::receive;

use crate::error::GuestError;

pub(crate) fn socket_pair() -> Result<(OwnedFd, OwnedFd), GuestError> {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(GuestError::system("making a socket pair"))
}

/// Returns true if there is data to read, or the peer has closed its end. Does not block.
pub(crate) fn is_readable(descriptor: impl AsFd) -> bool {
    let mut ready = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut ready, Some(&Timespec::default())) == Ok(1)
}

/// Sends a descriptor. Ignores errors, since the receiver detects a failure. A forked child may
/// call this before its exec.
pub(crate) fn send_descriptor(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) {
    let _ = descriptor::send(socket, descriptor);
}

/// Receives a descriptor. Returns `None` if the child ended before it sent one.
pub(crate) fn receive_descriptor(socket: impl AsFd) -> Option<OwnedFd> {
    receive(socket)?.1
}
