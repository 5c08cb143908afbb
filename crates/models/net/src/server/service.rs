//! Conversations of services with their peers.

use smoltcp::socket::tcp::{Socket, State};

use super::http::Http;
use super::pump::{drop_all, fill};
use super::{Service, ServiceStats};

/// State of a connection, by service.
#[derive(Debug)]
pub(super) enum Conversation {
    Echo,
    Discard,
    /// Number of bytes still to send; `None` without end.
    Source(Option<u64>),
    Http(Http),
}

impl Conversation {
    pub(super) fn new(service: Service) -> Self {
        match service {
            Service::Echo => Self::Echo,
            Service::Discard => Self::Discard,
            Service::Source(bytes) => Self::Source(bytes),
            Service::Http(bytes) => Self::Http(Http::new(bytes)),
        }
    }

    /// Reads and writes as much as possible. Returns true if it made progress, so that the caller
    /// polls the stack again.
    pub(super) fn go_on(&mut self, socket: &mut Socket<'_>, stats: &mut ServiceStats) -> bool {
        if socket.state() == State::SynReceived {
            return false; // not connected yet
        }
        let before = (socket.recv_queue(), socket.send_queue(), socket.state());
        match self {
            Self::Echo => echo(socket, stats),
            Self::Discard => _ = drop_all(socket, stats),
            Self::Source(left) => {
                drop_all(socket, stats);
                fill(socket, left, stats);
                if *left == Some(0) {
                    socket.close();
                }
            }
            Self::Http(http) => http.go_on(socket, stats),
        }
        // The peer has closed its side, and all its bytes have been read.
        if !socket.may_recv() && !socket.can_recv() && !self.is_speaking() {
            socket.close();
        }
        before != (socket.recv_queue(), socket.send_queue(), socket.state())
    }

    /// Returns true if there is more to send after the peer has closed its side.
    fn is_speaking(&self) -> bool {
        match self {
            Self::Http(http) => http.is_speaking(),
            _ => false,
        }
    }
}

fn echo(socket: &mut Socket<'_>, stats: &mut ServiceStats) {
    // No more is read than can be sent back, so that TCP slows the peer down.
    while socket.can_recv() && socket.can_send() {
        let room = socket.send_capacity() - socket.send_queue();
        let taken = socket.recv(|bytes| {
            let length = bytes.len().min(room);
            (length, bytes[..length].to_vec())
        });
        let Ok(bytes) = taken else { return };
        let sent = socket.send_slice(&bytes).unwrap_or(0);
        stats.received += bytes.len() as u64;
        stats.sent += sent as u64;
    }
}
