//! Syncs and Follow_Ups that wait for each other, in either order.

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant, Wall};
use timeloom_wire::{TimeInterval, Timestamp};

use crate::outbox::Outbox;
use crate::security::SyncFacts;
use crate::{DropReason, Stamp};

/// A Sync.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) sequence: u16,
    pub(super) facts: SyncFacts,
    pub(super) stamp: Stamp,
    pub(super) at: Instant<Wall>,
    pub(super) used: bool,
}

/// A Follow_Up.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) sequence: u16,
    pub(super) message: Vec<u8>,
    pub(super) origin: Timestamp,
    pub(super) correction: TimeInterval,
    pub(super) at: Instant<Wall>,
}

/// Bounded queues: whoever floods pushes out the oldest, and is counted.
#[derive(Debug, Default)]
pub(super) struct Matching {
    syncs: VecDeque<Arrived>,
    follow_ups: VecDeque<Waiting>,
}

const MAX_SYNCS: usize = 16;
pub(super) const MAX_FOLLOW_UPS: usize = 8;
/// What waits longer is not matched any more.
pub(super) const KEEP: Duration = Duration::from_ms(1500);

impl Matching {
    /// Whether a Sync is a copy: number and nonce are those of one that came
    /// before. The first is the one that was timed.
    pub(super) fn is_copy(&self, sequence: u16, facts: &SyncFacts) -> bool {
        self.syncs
            .iter()
            .any(|sync| sync.sequence == sequence && sync.facts.origin == facts.origin)
    }

    /// Whether a Sync with this number waits to be used.
    pub(super) fn has_sync(&self, sequence: u16) -> bool {
        let unused = |sync: &Arrived| sync.sequence == sequence && !sync.used;
        self.syncs.iter().any(unused)
    }

    /// Whether anything with this number waits for its other half, or to be used.
    pub(super) fn waits(&self, sequence: u16) -> bool {
        let has_follow_up = || self.follow_ups.iter().any(|w| w.sequence == sequence);
        self.has_sync(sequence) || has_follow_up()
    }

    pub(super) fn add_sync(&mut self, sync: Arrived) {
        if self.syncs.len() == MAX_SYNCS {
            self.syncs.pop_front();
        }
        self.syncs.push_back(sync);
    }

    pub(super) fn add_follow_up(&mut self, follow_up: Waiting, out: &mut Outbox) {
        if self.follow_ups.len() == MAX_FOLLOW_UPS {
            self.follow_ups.pop_front();
            out.dropped(1, DropReason::QueueFull);
        }
        self.follow_ups.push_back(follow_up);
    }

    /// The Follow_Up with this number and the Syncs it may belong to, used ones
    /// too: a second Follow_Up must fail as a replay, not wait. The Follow_Up
    /// leaves the queue.
    pub(super) fn pair(&mut self, sequence: u16) -> Option<(Waiting, Vec<Arrived>)> {
        let at = self
            .follow_ups
            .iter()
            .position(|waiting| waiting.sequence == sequence)?;
        let of_number = self.syncs.iter().filter(|sync| sync.sequence == sequence);
        let syncs: Vec<_> = of_number.cloned().collect();
        if syncs.is_empty() {
            return None;
        }
        Some((self.follow_ups.remove(at)?, syncs))
    }

    /// The oldest Sync with this number that was not used, which now is;
    /// ptp4l takes the newest.
    pub(super) fn use_oldest(&mut self, sequence: u16) -> Option<Arrived> {
        let sync = self
            .syncs
            .iter_mut()
            .find(|sync| sync.sequence == sequence && !sync.used)?;
        sync.used = true;
        Some(sync.clone())
    }

    /// The Syncs with this number have served.
    pub(super) fn use_all(&mut self, sequence: u16) {
        let of_number = self.syncs.iter_mut().filter(|s| s.sequence == sequence);
        of_number.for_each(|sync| sync.used = true);
    }

    pub(super) fn expire(&mut self, now: Instant<Wall>, out: &mut Outbox) {
        while self.syncs.front().is_some_and(|sync| now - sync.at > KEEP) {
            if self.syncs.pop_front().is_some_and(|sync| !sync.used) {
                out.dropped(1, DropReason::Unmatched);
            }
        }
        while self
            .follow_ups
            .front()
            .is_some_and(|waiting| now - waiting.at > KEEP)
        {
            self.follow_ups.pop_front();
            out.dropped(1, DropReason::Unmatched);
        }
    }

    /// The clock was stepped: what arrived was stamped before.
    pub(super) fn forget_syncs(&mut self) {
        self.syncs.clear();
    }

    pub(super) fn clear(&mut self) {
        self.syncs.clear();
        self.follow_ups.clear();
    }
}
