//! Passing of descriptors between processes, over a pair of UNIX sockets.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends a byte with a descriptor. Makes only one system call and allocates nothing, so a forked
/// child may call it before its exec.
///
/// # Errors
/// Fails if the peer has closed its end.
pub fn send(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); ROOM];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let byte = [IoSlice::new(&[0])];
    sendmsg(socket, &byte, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Receives a byte, with a descriptor if one was sent. Returns `None` if the peer has closed its
/// end.
pub fn receive(socket: impl AsFd) -> Option<(u8, Option<OwnedFd>)> {
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

/// Buffer size for one descriptor in an ancillary message.
const ROOM: usize = rustix::cmsg_space!(ScmRights(1));
