//! Follow_Ups that wait for statements on the second network.

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant};
use timeloom_wire::{ClockIdentity, PortIdentity};

use super::super::OrdinaryConfig;
use super::matching::{Arrived, Waiting};
use crate::security::{
    Admission, Budget, Collector, Limits, Outcome, Reason, Received, Security, Statement, Suspect,
};
use crate::{HopRecord, Local, Neighbour};

/// Result for a Follow_Up whose statements have all arrived, or that has timed out.
pub(super) enum Resolved {
    Accepted {
        sync: usize,
        sequence48: u64,
        waiting: Waiting,
        syncs: Vec<Arrived>,
    },
    Failed(u16, Reason, Suspect),
    /// Statements are missing, but may have been sent before this clock followed the master.
    TooEarly,
}

#[derive(Debug)]
pub(super) struct PendingFollowUps {
    /// Follow_Ups that wait, each with its deadline and its Syncs.
    waiting: VecDeque<(Instant<Local>, Waiting, Vec<Arrived>)>,
    collector: Collector,
    /// Time at which this clock began to follow the master, and to receive statements about it.
    followed_at: Option<Instant<Local>>,
    budget: Budget<(ClockIdentity, u16)>,
}

/// Greatest transit time of a statement.
const STATEMENT_WAIT: Duration = Duration::from_ms(200);
/// Greatest number of waiting Follow_Ups: 200 ms at 128 per second, with a margin.
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

    /// Drops the waiting Follow_Ups, and begins to follow another master at `now`.
    pub(super) fn begin(&mut self, now: Instant<Local>) {
        self.waiting.clear();
        self.followed_at = Some(now);
    }

    /// Returns true if statements about a Sync that arrived at `at` may have been sent before this
    /// clock followed the master. The transit time of a statement is at most [`STATEMENT_WAIT`].
    fn may_predate(&self, at: Instant<Local>) -> bool {
        let since = self.followed_at;
        since.is_some_and(|since| at - since < STATEMENT_WAIT)
    }

    /// Returns the earliest deadline of the waiting Follow_Ups; `None` if none waits.
    pub(super) fn next_wake(&self) -> Option<Instant<Local>> {
        self.waiting.front().map(|(deadline, ..)| *deadline)
    }

    /// Returns true if a Follow_Up with this number waits.
    pub(super) fn waits(&self, sequence: u16) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|(_, waiting, _)| waiting.sequence == sequence)
    }

    /// Returns the contributions of all hops from their statements about this Sync.
    pub(super) fn hops(&self, source: PortIdentity, sequence: u16) -> Vec<HopRecord> {
        self.collector.hops(source, sequence)
    }

    /// Adds a Follow_Up that waits for statements; returns false if there is no room.
    pub(super) fn wait(&mut self, waiting: Waiting, syncs: Vec<Arrived>) -> bool {
        if self.waiting.len() == MAX_WAITING {
            return false;
        }
        let deadline = waiting.at + STATEMENT_WAIT;
        self.waiting.push_back((deadline, waiting, syncs));
        true
    }

    /// Handles a received record. Fails with the violation, which is [`Reason::Flood`] for the
    /// first record of a second that was not checked. Returns `Ok(false)` for further unchecked
    /// records.
    ///
    /// The second network does not identify the sender of a record, so the Sync that the record
    /// claims to be about decides whether the record is due.
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

    /// Returns the Follow_Ups whose statements have all arrived, and those that have timed out.
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
