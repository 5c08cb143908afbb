//! The engine at the other end of a ring: whether it is here, and what goes there.

use core::sync::atomic::Ordering;
use std::os::fd::BorrowedFd;

use timeloom_net::{Owner, Packet};
use timeloom_time::{Instant, Virtual, Wall};

use super::{FAREWELL, NOBODY, Ring};
use crate::exact::Batch;
use crate::peer::{PeerConfig, PeerEvent, PeerStats};

/// The engine at the other end of a [`Ring`].
#[derive(Debug)]
pub(crate) struct Neighbour {
    there: Owner,
    pub(super) ring: Ring,
    config: PeerConfig,
    /// What goes with the next [`Neighbour::poll`].
    out: Batch,
    /// What has come.
    into: Batch,
    /// Before which instant nothing more comes.
    safe: Instant<Virtual>,
    present: bool,
    /// Whether it has said farewell.
    parted: bool,
    spoke: Option<Instant<Wall>>,
    stats: PeerStats,
}

/// Packets taken in before the engine has its turn.
const BUDGET: usize = 4_096;

impl Neighbour {
    pub(crate) fn new(there: Owner, ring: Ring, config: PeerConfig) -> Self {
        Self {
            there,
            ring,
            config,
            out: Batch::default(),
            into: Batch::default(),
            safe: Instant::ZERO,
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

    /// A packet that is to go, with the next [`Neighbour::poll`].
    #[inline]
    pub(crate) fn put(&mut self, packet: &Packet, bytes: &[u8]) {
        if !self.present {
            // To one that has ended its part in order nothing more is said.
            self.stats.dropped_away += u64::from(!self.parted);
            return;
        }
        self.out.packets.push(*packet);
        self.out.bytes.extend_from_slice(bytes);
    }

    /// Hands what has come to `act`.
    pub(crate) fn receive(&mut self, act: impl FnMut(&Packet, &[u8])) {
        let promised = self.ring.theirs.promise.made();
        self.ring.take(BUDGET, &mut self.into);
        // What is left in the ring may arrive sooner.
        if self.into.packets.len() < BUDGET {
            self.safe = promised;
        }
        if !self.into.packets.is_empty() {
            self.stats.packets_received += self.into.packets.len() as u64;
            self.into.for_each(act);
            self.into.clear();
        }
    }

    /// Sends what was put in, shows that we are here, and looks whether the other
    /// one is.
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

    /// Sends what is left and says farewell.
    pub(crate) fn close(&mut self, now: Instant<Wall>) {
        self.poll(now);
        self.ring.ours.seen.store(FAREWELL, Ordering::Release);
        self.ring.theirs.bell.ring();
        self.present = false;
    }

    /// When [`Neighbour::poll`] has something to do even if nothing happens.
    pub(crate) fn next_wake(&self) -> Instant<Wall> {
        let spoke = self.spoke;
        spoke.map_or(Instant::ZERO, |spoke| spoke + self.config.heartbeat)
    }

    /// Before which instant nothing more comes from it; of one that is away, never.
    pub(crate) fn safe(&self) -> Instant<Virtual> {
        if self.present {
            self.safe
        } else {
            Instant::FAR_FUTURE
        }
    }

    /// Whether it has promised meanwhile that nothing more comes up to `until`.
    pub(crate) fn has_promised(&self, until: Instant<Virtual>) -> bool {
        !self.present || self.ring.theirs.promise.made() > until
    }

    /// Promises that nothing more goes there before `at`, and rings who waits for that. After
    /// [`Neighbour::poll`].
    pub(crate) fn promise(&self, at: Instant<Virtual>) {
        if self.ring.ours.promise.make(at) {
            self.ring.theirs.bell.ring();
        }
    }

    /// Asks for a promise that reaches `at`.
    pub(crate) fn wish(&self, at: Instant<Virtual>) {
        if self.present && self.ring.theirs.promise.wish(at) {
            self.ring.theirs.bell.ring();
        }
    }

    /// Which promise of ours it waits for.
    pub(crate) fn wished(&self) -> Option<Instant<Virtual>> {
        self.ring.ours.promise.wished()
    }

    /// Whether there is something that [`Neighbour::receive`] has not seen.
    pub(crate) fn has_news(&self) -> bool {
        !self.ring.into.is_empty()
            || self.present && self.ring.theirs.promise.made() > self.safe
            || self.ring.theirs.seen.load(Ordering::Acquire) <= FAREWELL && self.present
    }

    /// We are about to sleep on [`Neighbour::descriptor`]. False when something has
    /// come meanwhile.
    pub(crate) fn doze(&self) -> bool {
        self.ring.ours.bell.doze();
        self.ring.into.is_empty()
    }

    /// We are up again.
    pub(crate) fn wake(&self) {
        self.ring.ours.bell.wake();
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.ours.bell.descriptor()
    }
}
