//! A descriptor from one process to another, over a pair of sockets.

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

/// Whether something is to be read, or the other end is gone. Does not wait.
pub(crate) fn is_readable(descriptor: impl AsFd) -> bool {
    let mut ready = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut ready, Some(&Timespec::default())) == Ok(1)
}

/// A failure is seen by who receives. A forked child may.
pub(crate) fn send_descriptor(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) {
    let _ = descriptor::send(socket, descriptor);
}

/// `None` when the child died before it got that far.
pub(crate) fn receive_descriptor(socket: impl AsFd) -> Option<OwnedFd> {
    receive(socket)?.1
}
