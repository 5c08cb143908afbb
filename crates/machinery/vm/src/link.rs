//! Links from a guest to its host: a stream of bytes over any transport.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use timeloom_sys::vsock;

/// Port at which a machine's relay listens on its host, for guests that connect by vsock.
pub const VSOCK_PORT: u32 = 8319;

/// Link of a guest to its host.
#[derive(Debug)]
pub enum Link {
    /// A port of the machine ([`crate::devices::port`]), or another bidirectional descriptor. It
    /// remains when it has no peer.
    Port(OwnedFd),
    /// A vsock, to [`VSOCK_PORT`] of the host.
    Vsock,
    /// A socket at this path, for a guest without a machine around it.
    Local(PathBuf),
}

impl Link {
    /// Opens the link.
    ///
    /// # Errors
    /// Fails if it does not exist, or if no process listens.
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

    /// Returns true if the descriptor remains valid after its peer has gone.
    pub(crate) fn stays(&self) -> bool {
        matches!(self, Self::Port(_))
    }
}
