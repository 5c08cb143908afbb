//! Links from a guest to its host. Each carries a stream of bytes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use timeloom_sys::vsock;

/// Vsock port on the host at which the relay of a machine listens.
pub const VSOCK_PORT: u32 = 8319;

/// Link from a guest to its host.
#[derive(Debug)]
pub enum HostLink {
    /// Port of the machine ([`crate::vm::devices::port`]), or another bidirectional descriptor. It
    /// remains open when its peer has gone.
    Port(OwnedFd),
    /// Vsock connection to [`VSOCK_PORT`] on the host.
    Vsock,
    /// Unix socket at this path, for a guest that is not in a virtual machine.
    Local(PathBuf),
}

impl HostLink {
    /// Opens the link.
    ///
    /// # Errors
    /// Fails if the link does not exist, or if no process listens at its other end.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Port(port) => port.try_clone(),
            Self::Vsock => {
                let peer = vsock::PeerAddress {
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
