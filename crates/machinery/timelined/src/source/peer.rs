//! Daemon of the same timeline on another host as a source, by two-way exchange over UDP; and the
//! code that answers such a daemon.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration as StdDuration;

use timeloom_clock::quality::TimelineId;
use timeloom_clock::timeline::{Era, Exchange};
use timeloom_time::{Duration, Instant};
use timeloom_timeline::shm::PageReader;

use timeloom_timeline::SharedKey;

use super::peer_codec::{Kind, LENGTH, Packet, PeerReading};
use super::{Source, SourceFailure, SourceSample};
use crate::LocalClock;

/// Requesting end of the exchange.
pub(super) struct Peer {
    address: String,
    timeline: TimelineId,
    key: Option<SharedKey>,
    clock: Arc<LocalClock>,
    socket: Option<UdpSocket>,
}

impl Peer {
    pub(super) fn new(
        address: &str,
        timeline: TimelineId,
        key: Option<SharedKey>,
        clock: Arc<LocalClock>,
    ) -> Self {
        Self {
            address: address.to_owned(),
            timeline,
            key,
            clock,
            socket: None,
        }
    }

    fn open(&self) -> std::io::Result<UdpSocket> {
        use std::net::ToSocketAddrs;
        let unknown = || std::io::Error::other("no such address");
        let to = self.address.to_socket_addrs()?.next().ok_or_else(unknown)?;
        let any: SocketAddr = if to.is_ipv4() {
            ([0, 0, 0, 0], 0).into()
        } else {
            ([0u16; 8], 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.set_read_timeout(Some(StdDuration::from_millis(800)))?;
        Ok(socket)
    }
}

impl Source for Peer {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let failed =
            |error: std::io::Error| SourceFailure(format!("peer {}: {error}", self.address));
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.open().map_err(failed)?,
        };
        let nonce = nonce().map_err(failed)?;
        let question = Packet {
            timeline: self.timeline,
            nonce,
            kind: Kind::Question,
        };
        let question = question.emit(self.key.as_ref());
        let sent = self.clock.core();
        socket.send(&question).map_err(failed)?;
        let mut buffer = [0; LENGTH + 1];
        // Answers to earlier requests and packets of other senders are skipped.
        for _ in 0..16 {
            let length = socket.recv(&mut buffer).map_err(failed)?;
            let received = self.clock.core();
            let Some(packet) = Packet::parse(&buffer[..length], self.key.as_ref()) else {
                continue;
            };
            if (packet.timeline, packet.nonce) != (self.timeline, nonce) {
                continue;
            }
            let Kind::Answer(shown) = packet.kind else {
                continue;
            };
            self.socket = Some(socket);
            let shown =
                shown.ok_or_else(|| SourceFailure::because("the peer has no interval itself"))?;
            return Ok(SourceSample::Exchange(Exchange {
                era,
                sent,
                asked: Instant::from_ns(shown.asked_ns),
                answered: Instant::from_ns(shown.answered_ns),
                received,
                root_delay: Duration::ZERO,
                root_dispersion: Duration::from_ns(shown.error_ns),
                least_delay: Duration::ZERO,
                asymmetry: None,
                authenticated: self.key.is_some(),
            }));
        }
        Err(SourceFailure(format!(
            "peer {} sent an unexpected answer",
            self.address
        )))
    }
}

/// Returns an unpredictable number for a request, so that no old answer matches it.
fn nonce() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    // The system call needs no file descriptor, and always fills a buffer this small.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Answers requests of peers until `ended` is true.
pub(crate) fn answer_all(
    socket: &UdpSocket,
    reader: &PageReader,
    key: Option<&SharedKey>,
    ended: &AtomicBool,
) {
    let mut buffer = [0; LENGTH + 1];
    while !ended.load(Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let asked = show(reader);
        let Some(packet) = Packet::parse(&buffer[..length], key) else {
            continue;
        };
        if packet.kind != Kind::Question || packet.timeline != reader.timeline() {
            continue;
        }
        // The second reading may be of another segment than the first. The answer states the wider
        // of the two halves, which covers both, and a later time that is not before the first.
        let answered = show(reader);
        let shown = asked.zip(answered).map(|(asked, answered)| PeerReading {
            asked_ns: asked.0.min(answered.0),
            answered_ns: answered.0,
            error_ns: asked.1.max(answered.1) + (asked.0 - answered.0).max(0),
        });
        let answer = Packet {
            kind: Kind::Answer(shown),
            ..packet
        };
        let _ = socket.send_to(&answer.emit(key), from);
    }
}

/// Returns the middle and half of the width of the interval, in nanoseconds.
fn show(reader: &PageReader) -> Option<(i64, i64)> {
    let interval = reader.read().ok()?.interval()?;
    let half_ns = interval.width().as_ns() / 2 + 1;
    Some((interval.earliest().as_ns().checked_add(half_ns)?, half_ns))
}
