//! Second network: signed statements as UDP datagrams, beside the unchanged PTP messages.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::PtpError;

/// A socket and the destinations of statements. Received datagrams are untrusted until a signature
/// is verified.
#[derive(Debug)]
pub struct SecondNetwork {
    socket: UdpSocket,
    to: Vec<SocketAddr>,
}

/// Buffer size. A statement has at most 134 octets; longer datagrams are invalid.
const LONGEST: usize = 256;
/// Datagrams read in one batch.
const BURST: usize = 64;

impl SecondNetwork {
    /// Binds `own`, in the calling thread's network namespace. Clocks send to all of `to`: the
    /// slaves and monitors.
    ///
    /// # Errors
    /// Fails if the address is in use or not this machine's.
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

    /// Sends to all destinations; returns the number of refusals by the kernel.
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
                // A destination's refusals are reported here, once per refusal.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => return,
            }
        }
    }
}
