//! Sockets between a virtual machine and its host (vsock(7)): streams by the numbers of a
//! machine and of a port, without a network.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, listen as begin, socket_with};

use crate::option::done;

/// The number by which a machine calls its host.
pub const HOST: u32 = libc::VMADDR_CID_HOST;

/// Ports below are for who may take them (CAP_NET_BIND_SERVICE), as with TCP.
pub const FIRST_FREE_PORT: u32 = 1024;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The machine's number.
    pub machine: u32,
    /// The port there.
    pub port: u32,
}

/// A stream to `peer`, from a port below [`FIRST_FREE_PORT`] where this process may have
/// one.
///
/// # Errors
/// When the kernel has no such sockets, or nobody listens there.
pub fn connect(peer: Peer) -> io::Result<OwnedFd> {
    let socket = stream()?;
    for port in (1..FIRST_FREE_PORT).rev() {
        let own = address(libc::VMADDR_CID_ANY, port);
        match bind(&socket, &own) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            // Any port will do then; the other end may see to who takes which.
            Err(_) => break,
        }
    }
    let to = address(peer.machine, peer.port);
    // SAFETY: a complete sockaddr_vm, passed with its size.
    done(unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), LENGTH) })?;
    Ok(socket)
}

/// Listens at `port` for whatever machine.
///
/// # Errors
/// When the kernel has no such sockets, or another one listens there.
pub fn listen(port: u32) -> io::Result<OwnedFd> {
    let socket = stream()?;
    bind(&socket, &address(libc::VMADDR_CID_ANY, port))?;
    begin(&socket, 16)?;
    Ok(socket)
}

/// The next stream to who listens, waited for.
///
/// # Errors
/// As accept(2).
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, Peer)> {
    let mut from = address(0, 0);
    let mut length = LENGTH;
    // SAFETY: the kernel writes no more than `length` bytes, which are plain numbers.
    let accepted = unsafe {
        libc::accept4(
            listener.as_fd().as_raw_fd(),
            (&raw mut from).cast(),
            &raw mut length,
            libc::SOCK_CLOEXEC,
        )
    };
    if accepted < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nobody else knows it.
    let stream = unsafe { OwnedFd::from_raw_fd(accepted) };
    let peer = Peer {
        machine: from.svm_cid,
        port: from.svm_port,
    };
    Ok((stream, peer))
}

fn stream() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::VSOCK,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

fn bind(socket: &OwnedFd, own: &libc::sockaddr_vm) -> io::Result<()> {
    // SAFETY: a complete sockaddr_vm, passed with its size.
    done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const *own).cast(), LENGTH) })
}

fn address(machine: u32, port: u32) -> libc::sockaddr_vm {
    // SAFETY: numbers alone, of which zero is a value; some kernels have more of them.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    address.svm_cid = machine;
    address.svm_port = port;
    address
}

const LENGTH: libc::socklen_t = size_of::<libc::sockaddr_vm>() as libc::socklen_t;
