//! Discarding of received bytes, and generation of bytes to send.

use smoltcp::socket::tcp::Socket;

use super::ServiceStats;

/// Bytes that are sent repeatedly. The lines of RFC 864 would have no advantage.
const PATTERN: [u8; 64] = *b"Timeloom0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS\n";

/// Reads and discards all available bytes; returns their number.
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

/// Writes the pattern until `left` is zero, or until the socket accepts no more. `left` is `None`
/// for an endless stream.
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
