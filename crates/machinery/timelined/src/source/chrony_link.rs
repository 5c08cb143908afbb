//! Connection to a chronyd: it sends requests and matches the answers to them.
//! [`chrony`](super::chrony) interprets the answers.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration as StdDuration;

use super::SourceFailure;
use super::chrony_codec::{BadReply, LENGTH, Question, request};

/// Connection to the chronyd at an address.
pub(super) struct Chronyd {
    address: String,
    /// Socket; recreated after a failure, because chronyd may have been restarted.
    link: Option<Link>,
    sequence: u32,
}

/// Reason why a request has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// chronyd refuses or does not know the request; its reply has this status code.
    Refused(u16),
    /// Any other reason, as text.
    Failed(SourceFailure),
}

impl From<NoAnswer> for SourceFailure {
    fn from(no_answer: NoAnswer) -> Self {
        match no_answer {
            NoAnswer::Refused(status) => Self::because(BadReply::Status(status)),
            NoAnswer::Failed(why) => why,
        }
    }
}

impl Chronyd {
    pub(super) fn new(address: String) -> Self {
        Self {
            address,
            link: None,
            sequence: std::process::id(),
        }
    }

    /// Sends a request and decodes the answer with `read`, which gets the packet and the request's
    /// sequence number.
    ///
    /// # Errors
    /// Fails with [`NoAnswer`] if there is no valid answer within half a second.
    pub(super) fn ask<T>(
        &mut self,
        question: Question,
        read: impl Fn(&[u8], u32) -> Result<T, BadReply>,
    ) -> Result<T, NoAnswer> {
        let address = &self.address;
        let failed = |why: std::io::Error| {
            NoAnswer::Failed(SourceFailure(format!("chronyd at {address}: {why}")))
        };
        let link = match self.link.take() {
            Some(link) => link,
            None => Link::open(address).map_err(failed)?,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let mut buffer = [0; 4 * LENGTH];
        link.send(&request(question, self.sequence))
            .map_err(failed)?;
        // A late answer to an earlier request may come first.
        for _ in 0..4 {
            let length = link.receive(&mut buffer).map_err(failed)?;
            match read(&buffer[..length], self.sequence) {
                Err(BadReply::Other) => {}
                answer => {
                    self.link = Some(link);
                    return answer.map_err(|bad| match bad {
                        BadReply::Status(status) => NoAnswer::Refused(status),
                        bad => NoAnswer::Failed(SourceFailure::because(bad)),
                    });
                }
            }
        }
        Err(NoAnswer::Failed(SourceFailure(format!(
            "chronyd at {address} does not answer"
        ))))
    }
}

enum Link {
    Udp(UdpSocket),
    /// Unix socket, with the path to which chronyd answers.
    Unix(UnixDatagram, PathBuf),
}

impl Link {
    /// Opens `address`: the path of chronyd's Unix socket, or a UDP address.
    fn open(address: &str) -> std::io::Result<Self> {
        let patience = Some(StdDuration::from_millis(500));
        if !address.contains('/') {
            let local = if address.starts_with('[') {
                "[::]:0"
            } else {
                "0.0.0.0:0"
            };
            let socket = UdpSocket::bind(local)?;
            socket.connect(address)?;
            socket.set_read_timeout(patience)?;
            return Ok(Self::Udp(socket));
        }
        // chronyd answers to the path of this socket. chronyd's user must be able to reach and
        // write it, so it lies in the directory of chronyd's own socket.
        let number = NAMES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("timeloom.{}.{number}", std::process::id());
        let name = std::path::absolute(std::path::Path::new(address).with_file_name(name))?;
        let socket = UnixDatagram::bind(&name)?;
        let link = Self::Unix(socket, name);
        if let Self::Unix(socket, name) = &link {
            std::fs::set_permissions(name, std::fs::Permissions::from_mode(0o666))?;
            socket.set_read_timeout(patience)?;
            socket.connect(address)?;
        }
        Ok(link)
    }

    fn send(&self, packet: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.send(packet),
            Self::Unix(socket, _) => socket.send(packet),
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.recv(buffer),
            Self::Unix(socket, _) => socket.recv(buffer),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Self::Unix(_, name) = self {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Counter that gives two connections to the same chronyd different paths.
static NAMES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
