//! Follow_Ups that wait for statements of the second network.

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant};
use timeloom_wire::{ClockIdentity, PortIdentity};

use super::super::OrdinaryConfig;
use super::matching::{Arrived, Waiting};
use crate::security::{
    Admission, Budget, Collector, Limits, Outcome, Reason, Received, Security, Statement, Suspect,
};
use crate::{HopRecord, Local, Neighbour};

/// A Follow_Up whose statements have arrived or timed out.
pub(super) enum Resolved {
    Accepted {
        sync: usize,
        sequence48: u64,
        waiting: Waiting,
        syncs: Vec<Arrived>,
    },
    Failed(u16, Reason, Suspect),
    /// The missing statements may have been sent before this clock followed the master.
    TooEarly,
}

#[derive(Debug)]
pub(super) struct PendingFollowUps {
    /// Pending Follow_Ups with their deadlines.
    waiting: VecDeque<(Instant<Local>, Waiting, Vec<Arrived>)>,
    collector: Collector,
    /// Instant from which this clock has followed the master, and received statements about it.
    followed_at: Option<Instant<Local>>,
    budget: Budget<(ClockIdentity, u16)>,
}

/// Longest transit time of statements.
const STATEMENT_WAIT: Duration = Duration::from_ms(200);
/// Largest number of pending Follow_Ups: 200 ms of 128 a second, with a margin.
const MAX_WAITING: usize = 64;

impl PendingFollowUps {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            waiting: VecDeque::new(),
            collector: Collector::default(),
            followed_at: None,
            budget: Budget::new(limits.failures_per_s),
        }
    }

    /// Drops pending Syncs, and follows another master from `now` on.
    pub(super) fn begin(&mut self, now: Instant<Local>) {
        self.waiting.clear();
        self.followed_at = Some(now);
    }

    /// Returns true if statements about a Sync that arrived at `at` may have been sent before this
    /// clock followed the master. Their transit time is at most the time for which they are
    /// awaited.
    fn may_predate(&self, at: Instant<Local>) -> bool {
        let since = self.followed_at;
        since.is_some_and(|since| at - since < STATEMENT_WAIT)
    }

    /// Returns the first deadline of the pending Follow_Ups.
    pub(super) fn next_wake(&self) -> Option<Instant<Local>> {
        self.waiting.front().map(|(deadline, ..)| *deadline)
    }

    /// Returns true if a Follow_Up with this number is pending.
    pub(super) fn waits(&self, sequence: u16) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|(_, waiting, _)| waiting.sequence == sequence)
    }

    /// Returns the statements of hops about this Sync.
    pub(super) fn hops(&self, source: PortIdentity, sequence: u16) -> Vec<HopRecord> {
        self.collector.hops(source, sequence)
    }

    /// Adds a pending Follow_Up; returns false if there was no room.
    pub(super) fn wait(&mut self, waiting: Waiting, syncs: Vec<Arrived>) -> bool {
        if self.waiting.len() == MAX_WAITING {
            return false;
        }
        let deadline = waiting.at + STATEMENT_WAIT;
        self.waiting.push_back((deadline, waiting, syncs));
        true
    }

    /// Handles a received record. Returns `Err` with the failure, which is [`Reason::Flood`] for
    /// the first record of a second that was not checked, and `Ok(false)` for further unchecked
    /// ones.
    ///
    /// The second network does not identify the sender of a record, so only its claimed subject
    /// decides if it is due.
    pub(super) fn hear(
        &mut self,
        now: Instant<Local>,
        record: &[u8],
        security: &Security,
        source: Option<PortIdentity>,
        is_due: impl Fn(u16) -> bool,
    ) -> Result<bool, Reason> {
        let claim = Statement::claim(record)?;
        if Some(claim.source) != source {
            return Ok(true); // no message waits for it
        }
        if !security.ring.knows(claim.clock) {
            return Err(Reason::UnknownSigner);
        }
        let key = is_due(claim.sequence).then_some((claim.clock, claim.sequence));
        match self.budget.admit(now, key) {
            Admission::Granted => {}
            Admission::Alarm => return Err(Reason::Flood),
            Admission::Refused => return Ok(false),
        }
        self.collector
            .add(Statement::verify(record, &security.ring)?);
        Ok(true)
    }

    /// Returns the Follow_Ups whose statements are complete or have timed out.
    pub(super) fn resolve(
        &mut self,
        now: Instant<Local>,
        source: PortIdentity,
        upstream: Option<&Neighbour>,
        limits: &Limits,
        config: &OrdinaryConfig,
    ) -> Vec<Resolved> {
        let mut resolved = Vec::new();
        for (deadline, waiting, syncs) in std::mem::take(&mut self.waiting) {
            let facts: Vec<_> = syncs.iter().map(|sync| sync.facts).collect();
            let received = Received {
                me: config.clock,
                upstream: upstream.map(|n| n.port.clock).unwrap_or_default(),
                domain: config.profile.domain,
                source,
                sequence: waiting.sequence,
                precise_origin: waiting.origin,
                correction: waiting.correction,
                syncs: &facts,
            };
            let sequence = waiting.sequence;
            match self.collector.resolve(&received, limits) {
                Outcome::Missing(_)
                    if now >= deadline && syncs.iter().any(|sync| self.may_predate(sync.at)) =>
                {
                    resolved.push(Resolved::TooEarly);
                }
                Outcome::Missing(suspect) if now >= deadline => {
                    resolved.push(Resolved::Failed(sequence, Reason::Missing, suspect));
                }
                Outcome::Missing(_) => self.waiting.push_back((deadline, waiting, syncs)),
                Outcome::Failed(reason, suspect) => {
                    resolved.push(Resolved::Failed(sequence, reason, suspect));
                }
                Outcome::Accepted { sync, sequence48 } => resolved.push(Resolved::Accepted {
                    sync,
                    sequence48,
                    waiting,
                    syncs,
                }),
            }
        }
        resolved
    }
}
