//! Packets over `SOCK_SEQPACKET` sockets, each with or without a file descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Creates an unbound `SOCK_SEQPACKET` socket.
fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Creates a socket that listens at `path`. An existing file there is removed: the caller holds the
/// timeline's lock, so the file belongs to a dead daemon.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 64)?;
    Ok(socket)
}

/// Connects to the daemon at `path`. Fails with [`io::ErrorKind::WouldBlock`] if the daemon does
/// not accept the connection within `patience`. Later sends on the socket have the same time limit.
pub fn connect(path: &Path, patience: core::time::Duration) -> io::Result<OwnedFd> {
    let socket = socket()?;
    set_send_patience(&socket, patience)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Accepts the next connection.
pub fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?)
}

/// Sends a packet, together with a descriptor if one is given. If `wait` is false and the
/// receiver's buffer is full, fails with [`io::ErrorKind::WouldBlock`].
pub fn send(
    socket: impl AsFd,
    packet: &[u8],
    fd: Option<BorrowedFd<'_>>,
    wait: bool,
) -> io::Result<()> {
    let fds = [fd.unwrap_or_else(|| socket.as_fd())];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if fd.is_some() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let mut flags = SendFlags::NOSIGNAL;
    if !wait {
        flags |= SendFlags::DONTWAIT;
    }
    let data = [io::IoSlice::new(packet)];
    loop {
        match rustix::net::sendmsg(&socket, &data, &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Sends as [`send`] does, and fails with [`io::ErrorKind::WouldBlock`] if the receiver's buffer
/// stays full for this long. The socket gets no timeout option for this: in a session, every call
/// by which the program sends or receives would then be trapped.
pub fn send_within(
    socket: impl AsFd,
    packet: &[u8],
    fd: Option<BorrowedFd<'_>>,
    patience: core::time::Duration,
) -> io::Result<()> {
    loop {
        match send(&socket, packet, fd, false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !is_ready(&socket, PollFlags::OUT, patience)? {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

/// Waits for a packet or the end of the connection, for at most `patience`; returns true if there
/// is one.
pub fn is_there(socket: impl AsFd, patience: core::time::Duration) -> io::Result<bool> {
    is_ready(socket, PollFlags::IN, patience)
}

fn is_ready(
    socket: impl AsFd,
    wanted: PollFlags,
    patience: core::time::Duration,
) -> io::Result<bool> {
    let begun = std::time::Instant::now();
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut asked = [PollFd::new(&socket, wanted)];
        match poll(&mut asked, Some(&left)) {
            Err(Errno::INTR) => {}
            other => return Ok(other? > 0),
        }
    }
}

/// Receives a packet into `buffer` and returns its length and its descriptor. Returns `None` if the
/// peer has closed the connection. Fails if the packet is longer than the buffer.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut data = [io::IoSliceMut::new(buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(&socket, &mut data, &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let mut found = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            found = found.or(fds.last());
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the packet is too long",
        ));
    }
    // The end of a connection looks like an empty packet, and no message is empty.
    Ok((received.bytes > 0).then_some((received.bytes, found)))
}

/// Sets the time limit for receiving on the socket; `None` removes the limit.
pub fn set_patience(socket: impl AsFd, patience: Option<core::time::Duration>) -> io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    Ok(set_socket_timeout(socket, Timeout::Recv, patience)?)
}

/// Sets the time limit for sending on the socket.
fn set_send_patience(socket: impl AsFd, patience: core::time::Duration) -> io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    Ok(set_socket_timeout(socket, Timeout::Send, Some(patience))?)
}
