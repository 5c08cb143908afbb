//! The engine at the other end of a ring: its presence, and the packets to and from it.

use core::sync::atomic::Ordering;
use std::os::fd::BorrowedFd;

use timeloom_net::{Owner, Packet};
use timeloom_time::{Instant, Virtual, Wall};

use super::{FAREWELL, NOBODY, Ring};
use crate::peering::exact::PacketBatch;
use crate::peering::peer::{PeerConfig, PeerEvent, PeerStats};

/// State of the engine at the other end of a [`Ring`].
#[derive(Debug)]
pub(crate) struct Neighbour {
    there: Owner,
    pub(super) ring: Ring,
    config: PeerConfig,
    /// Packets to be sent by the next [`Neighbour::poll`].
    out: PacketBatch,
    /// Buffer for received packets.
    into: PacketBatch,
    /// Instant before which no further packet arrives.
    safe: Instant<Virtual>,
    /// True if the last reception left no packet in the ring.
    drained: bool,
    present: bool,
    /// True if the other engine has said farewell.
    parted: bool,
    spoke: Option<Instant<Wall>>,
    stats: PeerStats,
}

/// Maximum number of packets received before the engine runs again.
const BUDGET: usize = 4_096;

impl Neighbour {
    pub(crate) fn new(there: Owner, ring: Ring, config: PeerConfig) -> Self {
        Self {
            there,
            ring,
            config,
            out: PacketBatch::default(),
            into: PacketBatch::default(),
            safe: Instant::ZERO,
            drained: true,
            present: false,
            parted: false,
            spoke: None,
            stats: PeerStats::default(),
        }
    }

    pub(crate) fn there(&self) -> Owner {
        self.there
    }

    pub(crate) fn is_present(&self) -> bool {
        self.present
    }

    pub(crate) fn stats(&self) -> PeerStats {
        self.stats
    }

    pub(crate) fn config(&self) -> &PeerConfig {
        &self.config
    }

    /// Queues a packet for the next [`Neighbour::poll`].
    #[inline]
    pub(crate) fn put(&mut self, packet: &Packet, bytes: &[u8]) {
        if !self.present {
            // Packets to an engine that has said farewell do not count as dropped.
            self.stats.dropped_away += u64::from(!self.parted);
            return;
        }
        self.out.packets.push(*packet);
        self.out.bytes.extend_from_slice(bytes);
    }

    /// Receives packets and calls `act` with each of them.
    pub(crate) fn receive(&mut self, act: impl FnMut(&Packet, &[u8])) {
        let promised = self.ring.theirs.promise.made();
        self.ring.take(BUDGET, &mut self.into);
        // Packets left in the ring may arrive sooner.
        self.drained = self.into.packets.len() < BUDGET;
        if self.drained {
            self.safe = promised;
        }
        if !self.into.packets.is_empty() {
            self.stats.packets_received += self.into.packets.len() as u64;
            self.into.for_each(act);
            self.into.clear();
        }
    }

    /// Sends queued packets, shows a sign of life, and returns a change of the other engine's
    /// presence.
    pub(crate) fn poll(&mut self, now: Instant<Wall>) -> Option<PeerEvent> {
        if !self.out.packets.is_empty() {
            let full = self.ring.put(&self.out);
            self.stats.packets_sent += self.out.packets.len() as u64 - full;
            self.stats.dropped_full += full;
            self.out.clear();
            self.ring.theirs.bell.ring();
        }
        let quiet = |spoke| now - spoke >= self.config.heartbeat;
        if self.spoke.is_none_or(quiet) {
            self.spoke = Some(now);
            self.ring.ours.seen.store(now.as_ns(), Ordering::Release);
        }
        let seen = self.ring.theirs.seen.load(Ordering::Acquire);
        self.parted = seen == FAREWELL;
        let gone = seen == NOBODY || self.parted;
        let silent = !gone && now - Instant::from_ns(seen) > self.config.silence;
        match (self.present, gone || silent) {
            (false, false) => {
                self.present = true;
                self.stats.joined += 1;
                Some(PeerEvent::Joined)
            }
            (true, true) => {
                self.present = false;
                self.stats.vanished += u64::from(silent);
                Some(PeerEvent::Left)
            }
            _ => None,
        }
    }

    /// Sends queued packets and the farewell.
    pub(crate) fn close(&mut self, now: Instant<Wall>) {
        self.poll(now);
        self.ring.ours.seen.store(FAREWELL, Ordering::Release);
        self.ring.theirs.bell.ring();
        self.present = false;
    }

    /// Returns the time at which [`Neighbour::poll`] must be called even if no input arrives.
    pub(crate) fn next_wake(&self) -> Instant<Wall> {
        let spoke = self.spoke;
        spoke.map_or(Instant::ZERO, |spoke| spoke + self.config.heartbeat)
    }

    /// Returns the instant before which no further packet arrives from the other engine; the far
    /// future if it is away.
    pub(crate) fn safe(&self) -> Instant<Virtual> {
        if self.present {
            self.safe
        } else {
            Instant::FAR_FUTURE
        }
    }

    /// Returns true if the last reception left no packet in the ring.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    /// Returns true if the other engine has promised by now that no further packet arrives up to
    /// `until`, or if it is away.
    pub(crate) fn has_promised(&self, until: Instant<Virtual>) -> bool {
        !self.present || self.ring.theirs.promise.made() > until
    }

    /// Promises that this engine sends no further packet that arrives before `at`, and wakes the
    /// other engine if it waits for that. [`Neighbour::poll`] must be called before.
    pub(crate) fn promise(&self, at: Instant<Virtual>) {
        if self.ring.ours.promise.make(at) {
            self.ring.theirs.bell.ring();
        }
    }

    /// Requests from the other engine a promise that reaches `at`.
    pub(crate) fn wish(&self, at: Instant<Virtual>) {
        if self.present && self.ring.theirs.promise.wish(at) {
            self.ring.theirs.bell.ring();
        }
    }

    /// Returns the promise for which the other engine waits; `None` if it does not wait.
    pub(crate) fn wished(&self) -> Option<Instant<Virtual>> {
        self.ring.ours.promise.wished()
    }

    /// Returns true if there is input that [`Neighbour::receive`] has not seen.
    pub(crate) fn has_news(&self) -> bool {
        !self.ring.into.is_empty()
            || self.present && self.ring.theirs.promise.made() > self.safe
            || self.ring.theirs.seen.load(Ordering::Acquire) <= FAREWELL && self.present
    }

    /// Prepares a sleep on [`Neighbour::descriptor`]. Returns false if input has arrived meanwhile;
    /// the thread must then not sleep.
    pub(crate) fn doze(&self) -> bool {
        self.ring.ours.bell.doze();
        self.ring.into.is_empty()
    }

    /// Marks this thread as awake.
    pub(crate) fn wake(&self) {
        self.ring.ours.bell.wake();
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.ours.bell.descriptor()
    }
}
