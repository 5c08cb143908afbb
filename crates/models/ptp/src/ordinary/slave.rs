//! Slave side of an ordinary clock: turns Syncs and Follow_Ups, after verification, into samples.
//! [`matching`] and [`pending`] store messages that wait, [`steering`] applies samples to the
//! clock, and [`records`] reports each Sync.

mod matching;
mod pending;
mod records;
mod steering;

use std::collections::{HashMap, VecDeque};

use timeloom_time::{Duration, Instant};
use timeloom_wire::message::Body;
use timeloom_wire::{Flags, Message, PortIdentity, TimeInterval};

use super::OrdinaryConfig;
use crate::outbox::Outbox;
use crate::security::{
    Admission, Budget, DUE, Freshness, ReplayWindow, Suspect, SyncFacts, Verdict,
    VerificationFailure, VerificationPolicy, VerifyJob, ViolationKind,
};
use crate::{ClockReport, DriverAction, DropReason, Local, Neighbour, PtpPacket, Stamp};
use matching::{Arrived, MAX_FOLLOW_UPS, Matching, Waiting};
use pending::{PendingFollowUps, Resolved};
use records::Records;
pub(super) use steering::Sample;
use steering::Steering;

/// State of a clock that follows a master.
#[derive(Debug)]
pub(super) struct Slave {
    parent: Option<PortIdentity>,
    matching: Matching,
    /// Follow_Ups that are being verified, with the number of the job and their Syncs.
    jobs: VecDeque<(u64, Waiting, Vec<Arrived>)>,
    next_job: u64,
    /// Replay window of each master; kept while another master is followed.
    replay: HashMap<PortIdentity, ReplayWindow>,
    pending: PendingFollowUps,
    budget: Budget<u16>,
    samples: VecDeque<Sample>,
    steering: Steering,
    records: Records,
}

/// Time after which a verdict that did not arrive counts as lost.
const VERDICT_LOST: Duration = Duration::from_s(4);

impl Slave {
    pub(super) fn new(config: &OrdinaryConfig) -> Self {
        let security = config.security.as_ref();
        let limits = security.map(|s| s.limits).unwrap_or_default();
        Self {
            parent: None,
            matching: Matching::default(),
            jobs: VecDeque::new(),
            next_job: 0,
            replay: HashMap::new(),
            pending: PendingFollowUps::new(&limits),
            budget: Budget::new(limits.failures_per_s),
            samples: VecDeque::new(),
            steering: Steering::new(config),
            records: Records::default(),
        }
    }

    pub(super) fn follows(&self, port: PortIdentity) -> bool {
        self.parent == Some(port)
    }

    /// Sets the master to follow; returns true if it differs from the previous one.
    pub(super) fn follow(&mut self, now: Instant<Local>, parent: Option<PortIdentity>) -> bool {
        if parent == self.parent {
            return false;
        }
        self.parent = parent;
        self.matching.clear();
        self.jobs.clear();
        self.pending.begin(now);
        true
    }

    fn window(&self) -> Option<&ReplayWindow> {
        self.parent.and_then(|parent| self.replay.get(&parent))
    }

    /// Handles a record that arrived over the second network.
    pub(super) fn handle_statement(
        &mut self,
        now: Instant<Local>,
        record: &[u8],
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let Some(security) = config.security.as_ref().filter(|s| s.secondary) else {
            return;
        };
        let source = self.parent;
        let window = source.and_then(|parent| self.replay.get(&parent));
        let matching = &self.matching;
        let is_due = |sequence| {
            matching.has_sync(sequence) || window.is_some_and(|window| window.is_due(sequence, DUE))
        };
        match self.pending.hear(now, record, security, source, is_due) {
            Ok(true) => {}
            Ok(false) => out.dropped(1, DropReason::Flood),
            // The record's sender cannot be identified on the second network.
            Err(reason) => {
                if reason == ViolationKind::Flood {
                    out.dropped(1, DropReason::Flood);
                }
                out.alarm(VerificationFailure {
                    observer: config.clock,
                    source: source.unwrap_or_default(),
                    sequence: 0,
                    reason,
                    suspect: Suspect {
                        after: None,
                        before: config.clock,
                    },
                });
            }
        }
    }

    /// Returns the time at which the first pending Follow_Up times out.
    pub(super) fn next_wake(&self) -> Option<Instant<Local>> {
        self.pending.next_wake()
    }

    /// Uses the Follow_Ups whose statements have all arrived, and drops those that have timed out.
    pub(super) fn resolve(
        &mut self,
        now: Instant<Local>,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let (Some(security), Some(source)) = (&config.security, self.parent) else {
            return;
        };
        let limits = &security.limits;
        for resolved in self.pending.resolve(now, source, upstream, limits, config) {
            match resolved {
                Resolved::Failed(sequence, reason, suspect) => {
                    self.report(sequence, reason, suspect, config, out);
                }
                Resolved::TooEarly => out.dropped(1, DropReason::Unmatched),
                Resolved::Accepted {
                    sync,
                    sequence48,
                    waiting,
                    syncs,
                } => {
                    if self.is_fresh(waiting.sequence, sequence48, upstream, config, out) {
                        self.accept(&waiting, &syncs[sync], true);
                    }
                }
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a packet, its arrival, and the clock's own parts"
    )]
    pub(super) fn handle_message(
        &mut self,
        now: Instant<Local>,
        packet: &PtpPacket,
        message: &Message<'_>,
        stamp: Stamp,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let header = &message.header;
        if !self.follows(header.source) {
            return;
        }
        self.matching.expire(now, out);
        let sequence = header.sequence_id;
        match message.body {
            Body::Sync(body) => {
                let facts = SyncFacts {
                    origin: body.origin,
                    correction: header.correction,
                    vid: packet.vlan.map_or(0, |tag| tag.vid),
                };
                let two_step = header.flags.has(Flags::TWO_STEP);
                if config.security.is_some() && self.matching.is_copy(sequence, &facts) {
                    return self.fail(
                        sequence,
                        ViolationKind::DuplicateSync,
                        upstream,
                        config,
                        out,
                    );
                }
                let arrived = Arrived {
                    sequence,
                    facts,
                    stamp,
                    at: now,
                    used: !two_step,
                };
                if !two_step && config.security.is_none() {
                    let sample = Sample::new(body.origin, header.correction, &arrived, false);
                    return self.samples.extend(sample);
                }
                self.matching.add_sync(arrived);
                if !two_step {
                    return self.fail(sequence, ViolationKind::Unsigned, upstream, config, out);
                }
                self.pair(sequence, upstream, config, out);
            }
            Body::FollowUp(body) => {
                let follow_up = Waiting {
                    sequence,
                    message: packet.bytes.clone(),
                    origin: body.precise_origin,
                    correction: header.correction,
                    at: now,
                };
                self.matching.add_follow_up(follow_up, out);
                self.pair(sequence, upstream, config, out);
            }
            _ => {}
        }
    }

    /// Processes a Follow_Up with its Syncs: passes it to the servo, to the wait for statements, or
    /// to verification.
    fn pair(
        &mut self,
        sequence: u16,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let Some((waiting, syncs)) = self.matching.pair(sequence) else {
            return;
        };
        let Some(security) = &config.security else {
            let Some(sync) = self.matching.use_oldest(sequence) else {
                return out.dropped(1, DropReason::Unmatched);
            };
            return self.accept(&waiting, &sync, false);
        };
        if security.secondary {
            if !self.pending.wait(waiting, syncs) {
                out.dropped(1, DropReason::QueueFull);
            }
            return;
        }
        // Verification has fallen behind. The newest Follow_Up must not be the one that waits: a
        // verdict on an older one would advance the replay window, and with it the numbers that are
        // due.
        if self.jobs.len() == MAX_FOLLOW_UPS {
            out.dropped(1, DropReason::QueueFull);
            let oldest = self.jobs.front().map(|(_, waiting, _)| waiting.at);
            if oldest.is_none_or(|oldest| waiting.at - oldest < VERDICT_LOST) {
                return;
            }
            self.jobs.pop_front();
        }
        let due = self
            .window()
            .is_some_and(|window| window.is_due(sequence, DUE));
        match self.budget.admit(waiting.at, due.then_some(sequence)) {
            Admission::Granted => {}
            refused => {
                out.dropped(1, DropReason::Flood);
                if refused == Admission::Alarm {
                    self.fail(sequence, ViolationKind::Flood, upstream, config, out);
                }
                return;
            }
        }
        self.next_job += 1;
        out.push(DriverAction::Verify(Box::new(VerifyJob {
            id: self.next_job,
            message: waiting.message.clone(),
            syncs: syncs.iter().map(|sync| sync.facts).collect(),
            me: config.clock,
            upstream: upstream.map(|n| n.port.clock),
            ring: security.ring.clone(),
            policy: security.policy,
            limits: security.limits,
        })));
        self.jobs.push_back((self.next_job, waiting, syncs));
    }

    pub(super) fn handle_verdict(
        &mut self,
        verdict: &Verdict,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let Some(at) = self.jobs.iter().position(|(id, ..)| *id == verdict.id) else {
            return;
        };
        let Some((_, waiting, syncs)) = self.jobs.remove(at) else {
            return;
        };
        let sequence = waiting.sequence;
        if let Some(source) = self.parent {
            self.records.judged(source, sequence, &verdict.hops);
        }
        let accepted = match verdict.result {
            Ok(accepted) => accepted,
            Err(failure) => {
                self.violated(failure, out);
                if is_monitor(config)
                    && let Some(sync) = syncs.first()
                {
                    self.accept(&waiting, sync, false);
                }
                return;
            }
        };
        let sync = &syncs[accepted.sync];
        if !self.is_fresh(sequence, accepted.sequence48, upstream, config, out) {
            return;
        }
        for other in &syncs {
            if other.facts.origin != sync.facts.origin {
                let suspect = Suspect {
                    after: None,
                    before: config.clock,
                };
                self.report(sequence, ViolationKind::SpoofedSync, suspect, config, out);
            }
        }
        self.matching.use_all(sequence);
        self.accept(&waiting, sync, true);
    }

    /// Checks a verified sequence number for freshness, and stores it.
    fn is_fresh(
        &mut self,
        sequence: u16,
        sequence48: u64,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) -> bool {
        let source = self.parent.unwrap_or_default();
        let window = self.replay.entry(source).or_default();
        let freshness = window.judge(sequence48);
        match freshness {
            Freshness::Newer | Freshness::Overtaken => window.remember(sequence48),
            Freshness::Used | Freshness::TooOld => {
                self.fail(sequence, ViolationKind::Replay, upstream, config, out);
            }
        }
        // An overtaken message is authentic: its number is stored, but it is too late to be used.
        freshness == Freshness::Newer
    }

    fn fail(
        &mut self,
        sequence: u16,
        reason: ViolationKind,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        // The upstream neighbour may only have forwarded the fault of a clock further upstream,
        // unless the neighbour should have detected the fault.
        let after = match reason {
            ViolationKind::DuplicateSync | ViolationKind::Delayed | ViolationKind::Flood => None,
            _ => upstream.map(|n| n.port.clock),
        };
        let suspect = Suspect {
            after,
            before: config.clock,
        };
        self.report(sequence, reason, suspect, config, out);
    }

    fn report(
        &mut self,
        sequence: u16,
        reason: ViolationKind,
        suspect: Suspect,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let source = self.parent.unwrap_or_default();
        let failure = VerificationFailure {
            observer: config.clock,
            source,
            sequence,
            reason,
            suspect,
        };
        self.violated(failure, out);
    }

    fn violated(&mut self, failure: VerificationFailure, out: &mut Outbox) {
        let in_record = self.records.violated(&failure);
        out.report(ClockReport::Failure { failure, in_record });
    }

    fn accept(&mut self, waiting: &Waiting, sync: &Arrived, authenticated: bool) {
        let correction = waiting.correction + sync.facts.correction;
        self.samples
            .extend(Sample::new(waiting.origin, correction, sync, authenticated));
    }

    pub(super) fn take_sample(&mut self) -> Option<Sample> {
        self.samples.pop_front()
    }

    /// Adjusts the clock by `sample`; returns true if the clock was stepped.
    pub(super) fn discipline(
        &mut self,
        sample: &Sample,
        delay: TimeInterval,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) -> bool {
        let master = self.parent.unwrap_or_default();
        let holds_over = !is_monitor(config);
        let steered = self
            .steering
            .discipline(sample, delay, master, holds_over, config, out);
        if steered.measured {
            let used = !steered.jumped || !holds_over;
            self.records.measured(master, sample, delay, used);
        }
        if steered.stepped {
            // The timestamps of received Syncs are those of the clock before its step.
            self.matching.forget_syncs();
            self.samples.clear();
            self.jobs.clear();
        } else if steered.jumped {
            self.fail(sample.sequence, ViolationKind::Delayed, None, config, out);
        }
        steered.stepped
    }

    /// Records a received Sync or Follow_Up, of the followed master or another.
    pub(super) fn note(
        &mut self,
        now: Instant<Local>,
        message: &Message<'_>,
        stamp: Stamp,
        out: &mut Outbox,
    ) {
        self.records.note(now, message, stamp, out);
    }

    /// Drops messages that have waited for too long.
    pub(super) fn expire(&mut self, now: Instant<Local>, out: &mut Outbox) {
        self.matching.expire(now, out);
    }

    /// Reports the records of Syncs for which nothing is pending.
    pub(super) fn settle(&mut self, now: Instant<Local>, out: &mut Outbox) {
        let (matching, jobs, pending) = (&self.matching, &self.jobs, &self.pending);
        let is_verified = |sequence| jobs.iter().any(|(_, of, _)| of.sequence == sequence);
        let waits =
            |sequence| matching.waits(sequence) || is_verified(sequence) || pending.waits(sequence);
        let hops = |source, sequence| pending.hops(source, sequence);
        self.records.settle(now, self.parent, waits, hops, out);
    }

    /// Reports all records, because the clock ends.
    pub(super) fn end(&mut self, out: &mut Outbox) {
        self.records.end(out);
    }
}

/// Returns true if failures are only reported. This includes clocks without keys, which cannot
/// check.
fn is_monitor(config: &OrdinaryConfig) -> bool {
    let policy = config.security.as_ref().map(|security| security.policy);
    policy.is_none_or(|policy| policy == VerificationPolicy::Monitor)
}
