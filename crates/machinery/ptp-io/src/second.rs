//! Second network: it carries signed statements as UDP datagrams, so that the PTP messages are
//! unchanged.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::PtpError;

/// Socket and destinations of statements. Received datagrams are untrusted until their signature is
/// verified.
#[derive(Debug)]
pub struct SecondNetwork {
    socket: UdpSocket,
    to: Vec<SocketAddr>,
}

/// Buffer size in octets. A statement has at most 134 octets; longer datagrams are invalid.
const LONGEST: usize = 256;
/// Maximum number of datagrams read in one batch.
const BURST: usize = 64;

impl SecondNetwork {
    /// Binds a socket to `own`, in the network namespace of the calling thread. The destinations
    /// `to` are the slaves and monitors.
    ///
    /// # Errors
    /// Fails if the address is in use or does not belong to this machine.
    pub fn open(own: SocketAddr, to: Vec<SocketAddr>) -> Result<Self, PtpError> {
        let open = || {
            let socket = UdpSocket::bind(own)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(PtpError::doing(format!("bind {own} for statements")))?;
        Ok(Self { socket, to })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a statement to all destinations; returns how many of the sends the kernel refused.
    pub(crate) fn send(&self, record: &[u8]) -> u64 {
        self.to
            .iter()
            .filter(|to| self.socket.send_to(record, to).is_err())
            .count() as u64
    }

    pub(crate) fn receive(&mut self, mut sink: impl FnMut(&[u8])) {
        let mut buffer = [0; LONGEST];
        for _ in 0..BURST {
            match self.socket.recv(&mut buffer) {
                Ok(length) => sink(&buffer[..length]),
                // The kernel reports here, once for each, that a destination refused a datagram.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => return,
            }
        }
    }
}
