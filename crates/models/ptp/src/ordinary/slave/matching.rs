//! Syncs and Follow_Ups that wait for each other; either may arrive first.

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant};
use timeloom_wire::{TimeInterval, Timestamp};

use crate::outbox::Outbox;
use crate::security::SyncFacts;
use crate::{DropReason, Local, Stamp};

/// A received Sync with its arrival timestamp.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) sequence: u16,
    pub(super) facts: SyncFacts,
    pub(super) stamp: Stamp,
    pub(super) at: Instant<Local>,
    pub(super) used: bool,
}

/// A received Follow_Up.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) sequence: u16,
    pub(super) message: Vec<u8>,
    pub(super) origin: Timestamp,
    pub(super) correction: TimeInterval,
    pub(super) at: Instant<Local>,
}

/// Bounded queues. A flood displaces the oldest entries, which are counted.
#[derive(Debug, Default)]
pub(super) struct Matching {
    syncs: VecDeque<Arrived>,
    follow_ups: VecDeque<Waiting>,
}

const MAX_SYNCS: usize = 16;
pub(super) const MAX_FOLLOW_UPS: usize = 8;
/// Time for which a message waits for its counterpart.
pub(super) const KEEP: Duration = Duration::from_ms(1500);

impl Matching {
    /// Returns true if a Sync is a copy: sequence number and nonce equal those of an earlier Sync.
    /// The arrival of the earlier one was measured.
    pub(super) fn is_copy(&self, sequence: u16, facts: &SyncFacts) -> bool {
        self.syncs
            .iter()
            .any(|sync| sync.sequence == sequence && sync.facts.origin == facts.origin)
    }

    /// Returns true if an unused Sync with this number is stored.
    pub(super) fn has_sync(&self, sequence: u16) -> bool {
        let unused = |sync: &Arrived| sync.sequence == sequence && !sync.used;
        self.syncs.iter().any(unused)
    }

    /// Returns true if a message with this number waits for its counterpart, or for its use.
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

    /// Removes and returns the Follow_Up with this number, together with all Syncs to which it may
    /// belong. Used Syncs are included, because a second Follow_Up must fail as a replay and not
    /// wait.
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

    /// Marks the oldest unused Sync with this number as used and returns it. (ptp4l takes the
    /// newest.)
    pub(super) fn use_oldest(&mut self, sequence: u16) -> Option<Arrived> {
        let sync = self
            .syncs
            .iter_mut()
            .find(|sync| sync.sequence == sequence && !sync.used)?;
        sync.used = true;
        Some(sync.clone())
    }

    /// Marks all Syncs with this number as used.
    pub(super) fn use_all(&mut self, sequence: u16) {
        let of_number = self.syncs.iter_mut().filter(|s| s.sequence == sequence);
        of_number.for_each(|sync| sync.used = true);
    }

    pub(super) fn expire(&mut self, now: Instant<Local>, out: &mut Outbox) {
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

    /// Discards all received Syncs, because the clock was stepped after they were timestamped.
    pub(super) fn forget_syncs(&mut self) {
        self.syncs.clear();
    }

    pub(super) fn clear(&mut self) {
        self.syncs.clear();
        self.follow_ups.clear();
    }
}
