//! Sans-IO state of the protocol from one engine to another.
//!
//! The functions take received datagrams and return packets and events; they take packets and
//! return datagrams to send. The other engine is *present* once its datagrams show that it knows
//! our epoch. It is *away* again after its farewell or a long silence. Packets sent while it is
//! away are dropped and counted. Its links are down during that time, so there should be no such
//! packets.

mod config;
mod replay_window;
mod stats;

pub use config::{BatchingPolicy, PeerConfig};
pub use stats::PeerStats;

use timeloom_net::{Owner, Packet, PacketKind};
use timeloom_time::{Duration, Instant, Wall};

use crate::peering::codec::Statics;
use crate::peering::datagram::{DatagramBody, DatagramHeader, DatagramReader, Key, OVERHEAD};
use replay_window::ReplayWindow;

/// Events that change the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// The other engine has become present, so its links are up.
    Joined,
    /// A new generation of the other engine has become present. Its links are up, and the state of
    /// the earlier generation is lost.
    Returned,
    /// The other engine is away, so its links are down.
    Left,
}

/// Maximum payload of a UDP datagram over IPv4, in bytes.
const LARGEST: usize = 65_507;

/// Packets of one class that wait to be sent.
#[derive(Debug, Default)]
struct Outbox {
    body: DatagramBody,
    /// Latest time at which the packets must be sent, if there are any.
    due: Option<Instant<Wall>>,
}

/// State of the connection to one other engine.
#[derive(Debug)]
pub struct Peer {
    here: Owner,
    there: Owner,
    key: Key,
    config: PeerConfig,
    epoch: u64,
    their_epoch: u64,
    /// Epoch of the generation of the other engine that was last present.
    met_epoch: u64,
    present: bool,
    /// True if the other engine has said farewell.
    parted: bool,
    next_number: u64,
    window: ReplayWindow,
    reader: DatagramReader,
    boxes: [Outbox; 2],
    scratch: Vec<u8>,
    /// Buffer for decrypted bodies.
    plain: Vec<u8>,
    heard: Instant<Wall>,
    /// Number of packets that had been sent when the last message was received.
    sent_before: u64,
    spoke: Option<Instant<Wall>>,
    answer: bool,
    stats: PeerStats,
}

impl Peer {
    /// Creates the state of engine `here` towards engine `there`. `epoch` must not be 0 and must
    /// grow with each start of engine `here`; nanoseconds since 1970 are suitable.
    pub fn new(here: Owner, there: Owner, key: Key, epoch: u64, config: PeerConfig) -> Self {
        Self {
            here,
            there,
            key,
            config,
            epoch: epoch.max(1),
            their_epoch: 0,
            met_epoch: 0,
            present: false,
            parted: false,
            next_number: 0,
            window: ReplayWindow::default(),
            reader: DatagramReader::default(),
            boxes: Default::default(),
            scratch: Vec::new(),
            plain: Vec::new(),
            heard: Instant::ZERO,
            sent_before: 0,
            spoke: None,
            answer: false,
            stats: PeerStats::default(),
        }
    }

    /// Returns the number of the other engine.
    pub fn there(&self) -> Owner {
        self.there
    }

    /// Returns true if the other engine is present.
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// Returns the counters.
    pub fn stats(&self) -> PeerStats {
        self.stats
    }

    /// Returns the configuration.
    pub fn config(&self) -> &PeerConfig {
        &self.config
    }

    /// Processes a received datagram, and calls `act` with each of its packets.
    pub fn handle_datagram(
        &mut self,
        now: Instant<Wall>,
        bytes: &[u8],
        statics: &Statics,
        act: impl FnMut(&Packet, &[u8]),
    ) -> Option<PeerEvent> {
        let mut plain = core::mem::take(&mut self.plain);
        let read = DatagramHeader::read(bytes, self.here, self.there, &self.key, &mut plain);
        let event = match read {
            Some((header, body)) => self.handle(now, header, body, statics, act),
            None => {
                self.stats.hostile += 1;
                None
            }
        };
        self.plain = plain;
        event
    }

    /// Processes a received datagram whose seal is valid, as [`Peer::handle_datagram`] does.
    fn handle(
        &mut self,
        now: Instant<Wall>,
        header: DatagramHeader,
        body: &[u8],
        statics: &Statics,
        act: impl FnMut(&Packet, &[u8]),
    ) -> Option<PeerEvent> {
        if header.from_epoch < self.their_epoch {
            self.stats.stale += 1;
            return None;
        }
        let mut event = None;
        if header.from_epoch > self.their_epoch {
            // The datagram is from a new generation: the state of earlier generations is invalid
            // now.
            self.their_epoch = header.from_epoch;
            self.window = ReplayWindow::default();
            self.answer = true;
            if self.present {
                self.vanish();
                event = Some(PeerEvent::Left);
            }
        }
        if header.to_epoch != self.epoch {
            // The sender does not know this engine, or knows only an earlier generation. If the
            // greeting is not a recording, the sender will answer with our epoch.
            if header.hello && header.to_epoch < self.epoch {
                self.answer = true;
            } else {
                self.stats.stale += 1;
            }
            return event;
        }
        if !self.window.admit(header.number, &mut self.stats) {
            return event;
        }
        self.heard = now;
        self.sent_before = self.stats.packets_sent;
        if !self.present && !header.farewell {
            self.present = true;
            self.parted = false;
            self.answer = true;
            self.stats.joined += 1;
            let met = core::mem::replace(&mut self.met_epoch, self.their_epoch);
            event = Some(match met == 0 || met == self.their_epoch {
                true => PeerEvent::Joined,
                false => PeerEvent::Returned,
            });
        }
        self.stats.datagrams_received += 1;
        if header.farewell {
            self.present = false;
            self.parted = true;
            return Some(PeerEvent::Left);
        }
        if !header.hello {
            match self.reader.read(body, header.compressed, statics, act) {
                Ok(count) => self.stats.packets_received += count,
                Err(_) => self.stats.malformed += 1,
            }
        }
        event
    }

    /// Queues a packet. `slack` is the wall time left until its arrival in the simulation. If the
    /// packet does not fit the present datagram, that datagram is appended to `out` first.
    #[inline]
    pub fn put(
        &mut self,
        now: Instant<Wall>,
        packet: &Packet,
        bytes: &[u8],
        slack: Duration,
        statics: &Statics,
        out: &mut Datagrams,
    ) {
        if !self.present {
            // Packets to an engine that has said farewell do not count as dropped.
            self.stats.dropped_away += u64::from(!self.parted);
            return;
        }
        let class = usize::from(!is_sensitive(packet));
        let policy = self.policy(class);
        let room = policy.bytes.min(LARGEST) - OVERHEAD;
        if bytes.len() + OVERHEAD + MOST_OF_A_RECORD > LARGEST {
            self.stats.too_large += 1;
            return;
        }
        let mail = &self.boxes[class];
        if !mail.body.is_empty() && mail.body.len() + bytes.len() + MOST_OF_A_RECORD > room {
            self.flush(now, class, policy.bytes, out);
        }
        let mail = &mut self.boxes[class];
        mail.body.put(packet, bytes, statics);
        let half = Duration::from_ns(slack.as_ns().max(0) / 2);
        let due = now + policy.hold.min(half.max(TRANSPORT));
        mail.due = Some(mail.due.map_or(due, |before| before.min(due)));
        self.stats.packets_sent += 1;
    }

    fn policy(&self, class: usize) -> BatchingPolicy {
        [self.config.sensitive, self.config.bulk][class]
    }

    fn flush(&mut self, now: Instant<Wall>, class: usize, padded: usize, out: &mut Datagrams) {
        let compress = self.policy(class).compress;
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        let mail = &mut self.boxes[class];
        mail.due = None;
        let before = mail.body.len();
        let compressed = mail.body.finish(compress, &mut scratch);
        if compressed {
            self.stats.bytes_saved += before.saturating_sub(scratch.len()) as u64;
        }
        // A full datagram is padded to the length that all datagrams of a train must have.
        // Compressed datagrams and those with a large packet are not padded.
        let padded = if compressed { 0 } else { padded };
        let header = DatagramHeader {
            compressed,
            ..self.header()
        };
        self.write(now, header, &scratch, padded, out);
        self.scratch = scratch;
    }

    fn header(&self) -> DatagramHeader {
        DatagramHeader {
            from: self.here,
            to: self.there,
            from_epoch: self.epoch,
            to_epoch: self.their_epoch,
            ..DatagramHeader::default()
        }
    }

    fn write(
        &mut self,
        now: Instant<Wall>,
        header: DatagramHeader,
        body: &[u8],
        padded: usize,
        out: &mut Datagrams,
    ) {
        let header = DatagramHeader {
            number: self.next_number,
            ..header
        };
        self.next_number += 1;
        let before = out.bytes.len();
        header.write(body, padded, &self.key, &mut out.bytes);
        let length = out.bytes.len() - before;
        out.lengths.push(length as u32);
        self.spoke = Some(now);
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += length as u64;
    }

    /// Appends all datagrams that are due to `out`: full ones, those whose packets have waited long
    /// enough, heartbeats and greetings.
    pub fn poll(&mut self, now: Instant<Wall>, out: &mut Datagrams) -> Option<PeerEvent> {
        for class in 0..2 {
            if self.boxes[class].due.is_some_and(|due| due <= now) {
                self.flush(now, class, 0, out);
            }
        }
        let quiet = self
            .spoke
            .is_none_or(|spoke| now - spoke >= self.config.heartbeat);
        if quiet || self.answer {
            self.answer = false;
            let header = DatagramHeader {
                hello: true,
                ..self.header()
            };
            self.write(now, header, &[], 0, out);
        }
        if self.present && now - self.heard > self.config.silence {
            self.vanish();
            return Some(PeerEvent::Left);
        }
        None
    }

    /// Marks the generation of the other engine that began at `epoch` as dead, because its end was
    /// observed from outside. Later datagrams of that generation are ignored. A newer generation
    /// may have joined already.
    pub fn mark_dead(&mut self, epoch: u64) -> Option<PeerEvent> {
        if self.their_epoch > epoch {
            return None;
        }
        self.their_epoch = epoch.saturating_add(1);
        self.window = ReplayWindow::default();
        if !self.present {
            return None;
        }
        self.vanish();
        Some(PeerEvent::Left)
    }

    fn vanish(&mut self) {
        self.present = false;
        self.stats.vanished += 1;
        let mut unsent = 0;
        for mail in &mut self.boxes {
            unsent += mail.body.count();
            *mail = Outbox::default();
        }
        self.stats.dropped_away += unsent;
        let since = self.stats.packets_sent - self.sent_before;
        self.stats.unconfirmed += since.saturating_sub(unsent);
    }

    /// Appends the waiting packets and the farewell to `out`.
    pub fn close(&mut self, now: Instant<Wall>, out: &mut Datagrams) {
        for class in 0..2 {
            if !self.boxes[class].body.is_empty() {
                self.flush(now, class, 0, out);
            }
        }
        let header = DatagramHeader {
            farewell: true,
            ..self.header()
        };
        self.write(now, header, &[], 0, out);
        self.present = false;
    }

    /// Returns the time at which [`Peer::poll`] must be called next.
    pub fn next_wake(&self) -> Instant<Wall> {
        let beat = self
            .spoke
            .map_or(Instant::ZERO, |spoke| spoke + self.config.heartbeat);
        let due = self.boxes.iter().filter_map(|mail| mail.due);
        due.fold(beat, core::cmp::Ord::min)
    }
}

/// Shortest transport time of a datagram. A packet with less time left is late in any case, and
/// sending it in a datagram of its own would delay all others.
const TRANSPORT: Duration = Duration::from_us(10);

/// Maximum length of a record in bytes, by which a datagram is kept below its maximum size.
const MOST_OF_A_RECORD: usize = 96;

fn is_sensitive(packet: &Packet) -> bool {
    matches!(
        packet.kind,
        PacketKind::Raw
            | PacketKind::EchoRequest
            | PacketKind::EchoReply
            | PacketKind::ArpRequest
            | PacketKind::ArpReply
    ) || packet.tos >= 0x80
}

/// Concatenated datagrams on their way to a socket.
#[derive(Debug, Default)]
pub struct Datagrams {
    /// The bytes of all datagrams.
    pub bytes: Vec<u8>,
    /// Length of each datagram.
    pub lengths: Vec<u32>,
}

impl Datagrams {
    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
    }

    /// Iterates over the datagrams.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |length| {
            let (one, after) = rest.split_at(*length as usize);
            rest = after;
            one
        })
    }
}
