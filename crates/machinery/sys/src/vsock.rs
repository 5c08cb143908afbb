//! Sockets between a virtual machine and its host (vsock(7)): streams addressed by a machine number
//! and a port, without a network.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, listen as begin, socket_with};

use crate::option::done;

/// Machine number of the host, as seen by a virtual machine.
pub const HOST: u32 = libc::VMADDR_CID_HOST;

/// First port that needs no privilege. Lower ports need CAP_NET_BIND_SERVICE, as with TCP.
pub const FIRST_FREE_PORT: u32 = 1024;

/// Address of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// Machine number.
    pub machine: u32,
    /// Port on that machine.
    pub port: u32,
}

/// Connects a stream to `peer`. The local port is below [`FIRST_FREE_PORT`] if this process may use
/// such a port.
///
/// # Errors
/// Fails if the kernel has no such sockets, or `peer` has no listener.
pub fn connect(peer: PeerAddress) -> io::Result<OwnedFd> {
    let socket = stream()?;
    for port in (1..FIRST_FREE_PORT).rev() {
        let own = address(libc::VMADDR_CID_ANY, port);
        match bind(&socket, &own) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            // Without the privilege, any port is used. The peer may check the port.
            Err(_) => break,
        }
    }
    let to = address(peer.machine, peer.port);
    // SAFETY: a complete sockaddr_vm, passed with its size.
    done(unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), LENGTH) })?;
    Ok(socket)
}

/// Listens at `port` for connections from any machine, and returns the listening socket.
///
/// # Errors
/// Fails if the kernel has no such sockets, or the port is in use.
pub fn listen(port: u32) -> io::Result<OwnedFd> {
    let socket = stream()?;
    bind(&socket, &address(libc::VMADDR_CID_ANY, port))?;
    begin(&socket, 16)?;
    Ok(socket)
}

/// Waits for the next connection to `listener`, and accepts it.
///
/// # Errors
/// Fails as accept(2) does.
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, PeerAddress)> {
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
    // SAFETY: the call has just created the descriptor, which has no other owner.
    let stream = unsafe { OwnedFd::from_raw_fd(accepted) };
    let peer = PeerAddress {
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
    // SAFETY: the structure has only numbers, for which zero is a valid value; some kernels have
    // more fields.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    address.svm_cid = machine;
    address.svm_port = port;
    address
}

const LENGTH: libc::socklen_t = size_of::<libc::sockaddr_vm>() as libc::socklen_t;
