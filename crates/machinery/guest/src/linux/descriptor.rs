//! A descriptor from one process to another, over a pair of sockets.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

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

/// Makes only one system call, and allocates nothing: a forked child may. A failure is
/// seen by who receives.
pub(crate) fn send_descriptor(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) {
    let mut space = [MaybeUninit::uninit(); ROOM];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let _ = sendmsg(
        socket,
        &[IoSlice::new(&[0])],
        &mut ancillary,
        SendFlags::empty(),
    );
}

/// `None` when the child died before it got that far.
pub(crate) fn receive_descriptor(socket: impl AsFd) -> Option<OwnedFd> {
    receive(socket)?.1
}

/// A byte, and a descriptor if one came with it; `None` when the other end was closed.
pub(crate) fn receive(socket: impl AsFd) -> Option<(u8, Option<OwnedFd>)> {
    let mut byte = [0u8];
    let mut space = [MaybeUninit::uninit(); ROOM];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut byte)];
    let got = recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    if got.bytes != 1 {
        return None;
    }
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Some((byte[0], descriptor))
}

/// For one descriptor in an ancillary message.
const ROOM: usize = rustix::cmsg_space!(ScmRights(1));
