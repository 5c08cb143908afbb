//! What is said on one connection.

use smoltcp::socket::tcp::{Socket, State};

use super::http::Http;
use super::{Service, ServiceStats};

/// One connection of a service.
#[derive(Debug)]
pub(super) enum Conversation {
    Echo,
    Discard,
    /// How much is still to be sent; `None` without end.
    Source(Option<u64>),
    Http(Http),
}

/// What a source sends, over and over; RFC 864's lines would do no better.
const PATTERN: [u8; 64] = *b"Timeloom0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS\n";

impl Conversation {
    pub(super) fn new(service: Service) -> Self {
        match service {
            Service::Echo => Self::Echo,
            Service::Discard => Self::Discard,
            Service::Source(bytes) => Self::Source(bytes),
            Service::Http(bytes) => Self::Http(Http::new(bytes)),
        }
    }

    /// Reads and writes what it can; says whether it did, so that the stack is
    /// asked again.
    pub(super) fn go_on(&mut self, socket: &mut Socket<'_>, stats: &mut ServiceStats) -> bool {
        if socket.state() == State::SynReceived {
            return false; // nobody is there yet
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
        // The other end has closed, and everything is read.
        if !socket.may_recv() && !socket.can_recv() && !self.is_speaking() {
            socket.close();
        }
        before != (socket.recv_queue(), socket.send_queue(), socket.state())
    }

    /// Whether it goes on after the other end has closed.
    fn is_speaking(&self) -> bool {
        match self {
            Self::Http(http) => http.is_speaking(),
            _ => false,
        }
    }
}

fn echo(socket: &mut Socket<'_>, stats: &mut ServiceStats) {
    // Only what can be sent is read, so that TCP slows the other end down.
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

/// Reads all that is there; gives back how much it was.
pub(super) fn drop_all(socket: &mut Socket<'_>, stats: &mut ServiceStats) -> u64 {
    let mut all = 0;
    while socket.can_recv() {
        let Ok(length) = socket.recv(|bytes| (bytes.len(), bytes.len())) else {
            break;
        };
        all += length as u64;
    }
    stats.received += all;
    all
}

/// Writes the pattern until nothing is left, or the socket takes no more.
pub(super) fn fill(socket: &mut Socket<'_>, left: &mut Option<u64>, stats: &mut ServiceStats) {
    while *left != Some(0) && socket.can_send() {
        let most = left.map_or(usize::MAX, |left| {
            usize::try_from(left).unwrap_or(usize::MAX)
        });
        let sent = socket.send(|room| {
            let length = room.len().min(most);
            for chunk in room[..length].chunks_mut(PATTERN.len()) {
                chunk.copy_from_slice(&PATTERN[..chunk.len()]);
            }
            (length, length)
        });
        let Ok(sent) = sent else { return };
        stats.sent += sent as u64;
        *left = left.map(|left| left - sent as u64);
    }
}
