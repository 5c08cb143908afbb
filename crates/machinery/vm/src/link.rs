//! The ways from a guest to its host: a stream of bytes, whatever carries it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use timeloom_sys::vsock;

/// Where the relay of a machine listens on its host, for guests that come by vsock.
pub const VSOCK_PORT: u32 = 8319;

/// How a guest reaches its host.
#[derive(Debug)]
pub enum Link {
    /// A port of the machine ([`crate::devices::port`]), or another descriptor for both
    /// ways. It stays when nobody is at the other end.
    Port(OwnedFd),
    /// A vsock, to [`VSOCK_PORT`] of the host.
    Vsock,
    /// A stream to somebody at this path, for a guest without a machine around it.
    Local(PathBuf),
}

impl Link {
    /// Opens it.
    ///
    /// # Errors
    /// When it is not there, or nobody listens.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Port(port) => port.try_clone(),
            Self::Vsock => {
                let peer = vsock::Peer {
                    machine: vsock::HOST,
                    port: VSOCK_PORT,
                };
                vsock::connect(peer)
            }
            Self::Local(path) => UnixStream::connect(path).map(OwnedFd::from),
        }
    }

    /// Whether what was opened outlives who is at the other end.
    pub(crate) fn stays(&self) -> bool {
        matches!(self, Self::Port(_))
    }
}
