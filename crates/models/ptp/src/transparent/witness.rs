//! Follow_Ups that a transparent clock has seen.
//!
//! There are two kinds of memory, because unverified data must not decide on authenticity. Sequence
//! numbers are stored only if signatures were valid; otherwise a forger could advance the window
//! beyond the real sender's numbers. For messages that were only forwarded, a digest is stored. It
//! serves to refuse exact copies and nothing else; in a copy that differs, a signature is invalid.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use timeloom_time::Instant;
use timeloom_wire::PortIdentity;

use crate::security::{Admission, Budget, Freshness, Limits, ReplayWindow};
use crate::{Local, Packet};

/// Purpose of a verification.
#[derive(Debug)]
pub(super) enum Purpose {
    /// The Follow_Up waits for the verdict: there are several Syncs, or the clock verifies before
    /// it signs (`watch`).
    Hold(Packet),
    /// The Follow_Up was already forwarded; a valid one advances the window.
    Advance,
}

/// A verification that is in progress.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: u64,
    pub(super) ingress: u16,
    pub(super) source: PortIdentity,
    pub(super) slots: Vec<u64>,
    /// True if the Syncs do not all have the same nonce.
    pub(super) several: bool,
    pub(super) purpose: Purpose,
}

/// Source and ingress port. Each pair has its own window, so that messages on another port cannot
/// advance it.
type Stream = (PortIdentity, u16);

#[derive(Debug)]
pub(super) struct Witness {
    verified: HashMap<Stream, ReplayWindow>,
    copies: HashMap<u16, VecDeque<u64>>,
    budget: Budget<(Stream, u16)>,
    pending: VecDeque<Pending>,
    next_id: u64,
}

const MAX_COPIES: usize = 128;
/// A number is due if it exceeds the last verified one by at most this. Only one in sixteen is
/// verified, and at 128 per second the verifying thread may be two seconds behind.
const DUE: u16 = 256;
const MAX_PENDING: usize = 16;
/// A clock without the setting `watch` verifies one Follow_Up in this many.
const ADVANCE_EVERY: u64 = 16;

impl Witness {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            verified: HashMap::new(),
            copies: HashMap::new(),
            budget: Budget::new(limits.failures_per_s),
            pending: VecDeque::new(),
            next_id: 0,
        }
    }

    /// Returns true if this number was used by a valid message, or if exactly this message was seen
    /// before.
    pub(super) fn is_replay(&self, stream: Stream, sequence48: u64, message: &[u8]) -> bool {
        let window = self.verified.get(&stream);
        let freshness = window.map_or(Freshness::Newer, |window| window.judge(sequence48));
        let copies = self.copies.get(&stream.1);
        matches!(freshness, Freshness::Used | Freshness::TooOld)
            || copies.is_some_and(|copies| copies.contains(&digest(message)))
    }

    /// Returns true if one more Follow_Up may cause checks of signatures.
    pub(super) fn admit(
        &mut self,
        now: Instant<Local>,
        stream: Stream,
        sequence_id: u16,
    ) -> Admission {
        let window = self.verified.get(&stream);
        let due = window.is_some_and(|window| window.is_due(sequence_id, DUE));
        self.budget.admit(now, due.then_some((stream, sequence_id)))
    }

    /// Records that this message is forwarded.
    pub(super) fn saw(&mut self, ingress: u16, message: &[u8]) {
        let copies = self.copies.entry(ingress).or_default();
        if copies.len() == MAX_COPIES {
            copies.pop_front();
        }
        copies.push_back(digest(message));
    }

    /// Records that the signatures of a message with this number were valid.
    pub(super) fn verified(&mut self, stream: Stream, sequence48: u64) -> Freshness {
        let window = self.verified.entry(stream).or_default();
        let freshness = window.judge(sequence48);
        window.remember(sequence48);
        freshness
    }

    /// Returns true if the window has fallen behind and no verification is in progress.
    pub(super) fn should_advance(&self, stream: Stream, sequence48: u64) -> bool {
        let newest = self.verified.get(&stream).and_then(ReplayWindow::newest);
        let behind = newest.is_none_or(|newest| sequence48 >= newest.saturating_add(ADVANCE_EVERY));
        let at_it = |pending: &Pending| {
            matches!(pending.purpose, Purpose::Advance)
                && (pending.source, pending.ingress) == stream
        };
        behind && !self.pending.iter().any(at_it)
    }

    /// Starts a verification and returns its number. If there are too many, because the verifying
    /// thread has fallen behind, the oldest is dropped. Returns true as the second value if a
    /// waiting Follow_Up was lost with it.
    pub(super) fn hand_out(&mut self, mut pending: Pending) -> (u64, bool) {
        self.next_id += 1;
        pending.id = self.next_id;
        let lost = (self.pending.len() == MAX_PENDING)
            .then(|| self.pending.pop_front())
            .flatten();
        self.pending.push_back(pending);
        let lost = lost.is_some_and(|lost| matches!(lost.purpose, Purpose::Hold(_)));
        (self.next_id, lost)
    }

    /// Removes and returns the verification with number `id`.
    pub(super) fn take(&mut self, id: u64) -> Option<Pending> {
        let at = self.pending.iter().position(|pending| pending.id == id)?;
        self.pending.remove(at)
    }

    /// Returns true if another Follow_Up of the Sync in `slot` is being verified.
    pub(super) fn is_tried(&self, slot: u64) -> bool {
        let waits = |pending: &Pending| {
            matches!(pending.purpose, Purpose::Hold(_)) && pending.slots.contains(&slot)
        };
        self.pending.iter().any(waits)
    }
}

/// Returns a digest that distinguishes messages. A second message with the same digest would still
/// need a valid signature.
fn digest(message: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    hasher.finish()
}
