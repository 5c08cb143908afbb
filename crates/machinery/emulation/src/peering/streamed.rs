//! Connection to an engine on a machine with which this one acts in turns.
//!
//! The packets of an iteration are one message ([`crate::peering::message`]) in a stream, which is
//! reliable and authenticated. The other engine receives it when its machine has the turn. Since
//! the machines act in the order of their events, that is before the first of the packets arrives.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use timeloom_net::{Owner, Packet, World};
use timeloom_time::{Instant, Virtual};

use crate::TurnStreams;
use crate::peering::exact::PacketBatch;
use crate::peering::message::Messages;
use crate::peering::peer::{PeerConfig, PeerEvent, PeerStats};

/// One end of a connection between engines on machines that act in turns.
pub struct Streamed {
    streams: Arc<dyn TurnStreams>,
    /// Number of the other machine.
    machine: usize,
    /// Event that never occurs: the streams ring the alarm of the engine's thread.
    never: OwnedFd,
}

impl Streamed {
    /// Creates the end that leads to the engine on `machine`, by its number in `streams`.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub fn new(streams: Arc<dyn TurnStreams>, machine: usize) -> io::Result<Self> {
        Ok(Self {
            streams,
            machine,
            never: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }
}

impl std::fmt::Debug for Streamed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Streamed").field(&self.machine).finish()
    }
}

/// State of the engine at the other end.
#[derive(Debug)]
pub(crate) struct StreamedPeer {
    there: Owner,
    end: Streamed,
    config: PeerConfig,
    messages: Messages,
    /// Packets to be sent by the next [`StreamedPeer::poll`].
    out: PacketBatch,
    message: Vec<u8>,
    /// Earliest arrival of the packets sent since [`StreamedPeer::take_earliest`].
    earliest: Option<Instant<Virtual>>,
    has_joined: bool,
    stats: PeerStats,
}

impl StreamedPeer {
    pub(crate) fn new(there: Owner, end: Streamed, config: PeerConfig, world: &World) -> Self {
        Self {
            there,
            end,
            config,
            messages: Messages::of(world),
            out: PacketBatch::default(),
            message: Vec::new(),
            earliest: None,
            has_joined: false,
            stats: PeerStats::default(),
        }
    }

    pub(crate) fn config(&self) -> &PeerConfig {
        &self.config
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.end.never.as_fd()
    }

    pub(crate) fn status(&self) -> (Owner, bool, PeerStats) {
        (self.there, self.has_joined, self.stats)
    }

    /// Queues a packet for the next [`StreamedPeer::poll`].
    pub(crate) fn put(&mut self, packet: &Packet, bytes: &[u8]) {
        self.out.packets.push(*packet);
        self.out.bytes.extend_from_slice(bytes);
    }

    /// Sends queued packets. The first call returns that the other engine is present: both machines
    /// have prepared their engines when the first turn begins.
    pub(crate) fn poll(&mut self) -> Option<PeerEvent> {
        let first = self.out.packets.iter().map(|packet| packet.at).min();
        if let Some(first) = first {
            self.message.clear();
            self.messages.write(first, &self.out, &mut self.message);
            let Streamed {
                streams, machine, ..
            } = &self.end;
            streams.send(*machine, first, &self.message);
            self.earliest = Some(self.earliest.map_or(first, |earliest| earliest.min(first)));
            self.stats.packets_sent += self.out.packets.len() as u64;
            self.stats.datagrams_sent += 1;
            self.stats.bytes_sent += self.message.len() as u64;
            self.out.clear();
        }
        let joins = !std::mem::replace(&mut self.has_joined, true);
        self.stats.joined += u64::from(joins);
        joins.then_some(PeerEvent::Joined)
    }

    /// Receives packets and calls `act` with each of them.
    pub(crate) fn receive(&mut self, mut act: impl FnMut(&Packet, &[u8])) {
        while let Some(message) = self.end.streams.receive(self.end.machine) {
            self.stats.datagrams_received += 1;
            let mut batch = PacketBatch::default();
            if self.messages.read(&message, &mut batch).is_err() {
                self.stats.malformed += 1;
                continue;
            }
            self.stats.packets_received += batch.packets.len() as u64;
            batch.for_each(&mut act);
        }
    }

    /// Returns true if there is input that [`StreamedPeer::receive`] has not seen.
    pub(crate) fn has_news(&self) -> bool {
        self.end.streams.has_arrived(self.end.machine)
    }

    /// Returns the earliest arrival of the packets sent since the last call; `None` if none was
    /// sent.
    pub(crate) fn take_earliest(&mut self) -> Option<Instant<Virtual>> {
        self.earliest.take()
    }
}
