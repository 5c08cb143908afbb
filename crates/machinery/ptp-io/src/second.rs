//! The second network: signed statements as UDP datagrams, beside the PTP
//! messages that stay as they are.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::PtpError;

/// A socket, and to whom statements go. Everything received is taken for what
/// it is: bytes that a signature has to vouch for.
#[derive(Debug)]
pub struct SecondNetwork {
    socket: UdpSocket,
    to: Vec<SocketAddr>,
}

/// A statement has at most 134 octets; longer datagrams are none.
const LONGEST: usize = 256;
/// Datagrams read in one go.
const BURST: usize = 64;

impl SecondNetwork {
    /// Binds `own`, in the calling thread's network namespace. Clocks send to
    /// all of `to`: the slaves and monitors.
    ///
    /// # Errors
    /// When the address is taken or not this machine's.
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

    /// Sends to everybody; returns how often the kernel refused.
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
                // What a destination refused comes back here, once per refusal.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => return,
            }
        }
    }
}
