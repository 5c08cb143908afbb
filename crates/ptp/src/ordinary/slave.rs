//! The receiving half of an ordinary clock.

use std::collections::{HashMap, VecDeque};

use timeloom_time::{Duration, Instant, Wall};
use timeloom_wire::message::Body;
use timeloom_wire::{Flags, Message, PortIdentity, TimeInterval, Timestamp};

use super::OrdinaryConfig;
use crate::outbox::Outbox;
use crate::security::{
    Collector, DelayWatch, Failure, Freshness, Outcome, Policy, Reason, Received, ReplayWindow,
    Statement, Suspect, SyncFacts, Verdict, VerifyJob,
};
use crate::{Action, DropReason, Neighbour, Packet, PiServo, Report, ServoOutput, Stamp};

#[derive(Clone, Debug)]
struct Arrived {
    sequence: u16,
    facts: SyncFacts,
    stamp: Stamp,
    at: Instant<Wall>,
    used: bool,
}

#[derive(Clone, Debug)]
struct Waiting {
    sequence: u16,
    message: Vec<u8>,
    origin: Timestamp,
    correction: TimeInterval,
    at: Instant<Wall>,
}

/// One Sync with all that is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    sequence: u16,
    arrived: Stamp,
    /// Arrival − (origin + corrections): offset plus delay of the last link.
    pub(super) forward: TimeInterval,
    authenticated: bool,
    /// Arrival − origin, whole: a clock that starts in 1970 is further off
    /// than the 39 hours of a correction can say.
    apart: Duration,
}

/// Matches Sync and Follow_Up in either order, has them verified, and steers.
#[derive(Debug)]
pub(super) struct Slave {
    parent: Option<PortIdentity>,
    syncs: VecDeque<Arrived>,
    follow_ups: VecDeque<Waiting>,
    jobs: VecDeque<(u64, Waiting, Vec<Arrived>)>,
    next_job: u64,
    /// One window per master, kept when another is followed for a while.
    replay: HashMap<PortIdentity, ReplayWindow>,
    samples: VecDeque<Sample>,
    /// Follow_Ups that wait for statements, and until when.
    stated: VecDeque<(Instant<Wall>, Waiting, Vec<Arrived>)>,
    collector: Collector,
    servo: PiServo,
    watch: DelayWatch,
    /// Follow_Ups out of turn that may still be looked into in this second.
    budget: u32,
    budget_at: Instant<Wall>,
    tries: HashMap<u16, u8>,
    interval: Duration,
}

const MAX_SYNCS: usize = 16;
const MAX_FOLLOW_UPS: usize = 8;
/// Further off than this, the clock is set before it is steered.
const DAY_NS: u64 = 86_400_000_000_000;
/// How long statements may take.
const STATEMENT_WAIT: Duration = Duration::from_ms(200);
/// How far beyond the last accepted number a number is due.
const DUE: u16 = 32;
/// Follow_Ups of one due number that are looked into per second.
const TRIES: u8 = 4;
/// What waits longer is not matched any more.
const KEEP: Duration = Duration::from_ms(1500);

impl Slave {
    pub(super) fn new(config: &OrdinaryConfig) -> Self {
        let servo = PiServo::new(Duration::MAX);
        let limits = config
            .security
            .as_ref()
            .map(|s| s.limits)
            .unwrap_or_default();
        Self {
            parent: None,
            syncs: VecDeque::new(),
            follow_ups: VecDeque::new(),
            jobs: VecDeque::new(),
            next_job: 0,
            replay: HashMap::new(),
            samples: VecDeque::new(),
            stated: VecDeque::new(),
            collector: Collector::default(),
            servo: if config.software_stamps {
                servo.for_software_stamps()
            } else {
                servo
            },
            watch: DelayWatch::new(config.jump_bound),
            budget: limits.failures_per_s,
            budget_at: Instant::ZERO,
            tries: HashMap::new(),
            interval: config.profile.sync_interval(),
        }
    }

    pub(super) const fn drift_ppb(&self) -> f64 {
        self.servo.drift_ppb()
    }

    pub(super) fn follows(&self, port: PortIdentity) -> bool {
        self.parent == Some(port)
    }

    /// Changes the parent; `true` when it is another one.
    pub(super) fn follow(&mut self, parent: Option<PortIdentity>) -> bool {
        if parent == self.parent {
            return false;
        }
        self.parent = parent;
        self.syncs.clear();
        self.follow_ups.clear();
        self.jobs.clear();
        self.stated.clear();
        true
    }

    /// A record came by the second network.
    pub(super) fn handle_statement(
        &mut self,
        record: &[u8],
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let Some(security) = config.security.as_ref().filter(|s| s.secondary) else {
            return;
        };
        match Statement::verify(record, &security.ring) {
            Ok(statement) => self.collector.add(statement),
            // The second network does not say who sent it.
            Err(reason) => self.fail(0, reason, None, config, out),
        }
    }

    /// When the first of the waiting Follow_Ups is given up.
    pub(super) fn next_wake(&self) -> Option<Instant<Wall>> {
        self.stated.front().map(|(deadline, ..)| *deadline)
    }

    /// Uses the Follow_Ups whose statements are complete; gives up those whose
    /// time is over.
    pub(super) fn resolve(
        &mut self,
        now: Instant<Wall>,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let (Some(security), Some(source)) = (&config.security, self.parent) else {
            return;
        };
        for (deadline, waiting, syncs) in std::mem::take(&mut self.stated) {
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
            match self.collector.resolve(&received, &security.limits) {
                Outcome::Missing(suspect) if now >= deadline => {
                    self.report(sequence, Reason::Missing, suspect, config, out);
                }
                Outcome::Missing(_) => self.stated.push_back((deadline, waiting, syncs)),
                Outcome::Failed(reason, suspect) => {
                    self.report(sequence, reason, suspect, config, out)
                }
                Outcome::Accepted { sync, sequence48 } => {
                    let window = self.replay.entry(source).or_default();
                    match window.judge(sequence48) {
                        Freshness::Newer => {
                            window.remember(sequence48);
                            let correction = waiting.correction + syncs[sync].facts.correction;
                            self.accept(waiting.origin, correction, &syncs[sync], true);
                        }
                        Freshness::Overtaken => window.remember(sequence48),
                        _ => self.fail(sequence, Reason::Replay, upstream, config, out),
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
        now: Instant<Wall>,
        packet: &Packet,
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
        self.expire(now, out);
        let sequence = header.sequence_id;
        match message.body {
            Body::Sync(body) => {
                let vid = packet.vlan.map_or(0, |tag| tag.vid);
                let facts = SyncFacts {
                    origin: body.origin,
                    correction: header.correction,
                    vid,
                };
                let two_step = header.flags.has(Flags::TWO_STEP);
                if config.security.is_some() && self.is_copy(sequence, &facts) {
                    return self.fail(sequence, Reason::DuplicateSync, upstream, config, out);
                }
                if self.syncs.len() == MAX_SYNCS {
                    self.syncs.pop_front();
                }
                let arrived = Arrived {
                    sequence,
                    facts,
                    stamp,
                    at: now,
                    used: !two_step,
                };
                if !two_step {
                    if config.security.is_some() {
                        self.syncs.push_back(arrived);
                        return self.fail(sequence, Reason::Unsigned, upstream, config, out);
                    }
                    return self.accept(body.origin, header.correction, &arrived, false);
                }
                self.syncs.push_back(arrived);
                self.pair(sequence, upstream, config, out);
            }
            Body::FollowUp(body) => {
                if self.follow_ups.len() == MAX_FOLLOW_UPS {
                    self.follow_ups.pop_front();
                    out.dropped(1, DropReason::QueueFull);
                }
                self.follow_ups.push_back(Waiting {
                    sequence,
                    message: packet.bytes.clone(),
                    origin: body.precise_origin,
                    correction: header.correction,
                    at: now,
                });
                self.pair(sequence, upstream, config, out);
            }
            _ => {}
        }
    }

    /// The same Sync once more: number and nonce are those of one that came
    /// before. The first is the one that was timed.
    fn is_copy(&self, sequence: u16, facts: &SyncFacts) -> bool {
        self.syncs
            .iter()
            .any(|sync| sync.sequence == sequence && sync.facts.origin == facts.origin)
    }

    fn expire(&mut self, now: Instant<Wall>, out: &mut Outbox) {
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

    /// Whether a Follow_Up may be looked into. The numbers that are due have
    /// tries of their own, so that a flood of others does not displace them; a
    /// flood of just those numbers can, as jamming could.
    fn may_verify(&mut self, sequence: u16, now: Instant<Wall>, per_s: u32) -> bool {
        if now - self.budget_at >= Duration::from_s(1) {
            self.budget_at = now;
            self.budget = per_s;
            self.tries.clear();
        }
        let window = self.parent.and_then(|parent| self.replay.get(&parent));
        let ahead = window
            .and_then(ReplayWindow::newest)
            .map(|newest| sequence.wrapping_sub(newest as u16));
        if ahead.is_some_and(|ahead| (1..=DUE).contains(&ahead)) {
            let tries = self.tries.entry(sequence).or_default();
            *tries += 1;
            return *tries <= TRIES;
        }
        if self.budget == 0 {
            return false;
        }
        self.budget -= 1;
        true
    }

    fn pair(
        &mut self,
        sequence: u16,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let Some(at) = self
            .follow_ups
            .iter()
            .position(|waiting| waiting.sequence == sequence)
        else {
            return;
        };
        let syncs: Vec<_> = self
            .syncs
            .iter()
            .filter(|sync| sync.sequence == sequence)
            .cloned()
            .collect();
        if syncs.is_empty() {
            return;
        }
        let Some(waiting) = self.follow_ups.remove(at) else {
            return;
        };
        if config
            .security
            .as_ref()
            .is_some_and(|security| security.secondary)
        {
            if self.stated.len() == MAX_SYNCS {
                self.stated.pop_front();
            }
            let deadline = waiting.at + STATEMENT_WAIT;
            self.stated.push_back((deadline, waiting, syncs));
            return;
        }
        let Some(security) = &config.security else {
            // The oldest that was not used; ptp4l takes the newest.
            let Some(sync) = self
                .syncs
                .iter_mut()
                .find(|sync| sync.sequence == sequence && !sync.used)
            else {
                return out.dropped(1, DropReason::Unmatched);
            };
            sync.used = true;
            let sync = sync.clone();
            return self.accept(
                waiting.origin,
                waiting.correction + sync.facts.correction,
                &sync,
                false,
            );
        };
        if !self.may_verify(sequence, waiting.at, security.limits.failures_per_s) {
            return self.fail(sequence, Reason::Flood, upstream, config, out);
        }
        self.next_job += 1;
        out.push(Action::Verify(Box::new(VerifyJob {
            id: self.next_job,
            message: waiting.message.clone(),
            syncs: syncs.iter().map(|sync| sync.facts).collect(),
            me: config.clock,
            upstream: upstream.map(|n| n.port.clock),
            ring: security.ring.clone(),
            policy: security.policy,
            limits: security.limits,
        })));
        if self.jobs.len() == MAX_FOLLOW_UPS {
            self.jobs.pop_front();
        }
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
        let follow_anyway = config
            .security
            .as_ref()
            .is_some_and(|s| s.policy == Policy::Monitor);
        let accepted = match verdict.result {
            Ok(accepted) => accepted,
            Err(failure) => {
                out.report(Report::Failure(failure));
                if follow_anyway && let Some(sync) = syncs.first() {
                    self.accept(
                        waiting.origin,
                        waiting.correction + sync.facts.correction,
                        sync,
                        false,
                    );
                }
                return;
            }
        };
        let sync = &syncs[accepted.sync];
        let window = self
            .replay
            .entry(self.parent.unwrap_or_default())
            .or_default();
        match window.judge(accepted.sequence48) {
            Freshness::Newer => {}
            // Genuine but overtaken: remembered, and too late to be of use.
            Freshness::Overtaken => return window.remember(accepted.sequence48),
            Freshness::Used | Freshness::TooOld => {
                return self.fail(sequence, Reason::Replay, upstream, config, out);
            }
        }
        window.remember(accepted.sequence48);
        for other in &syncs {
            if other.facts.origin != sync.facts.origin {
                let after = None;
                self.report(
                    sequence,
                    Reason::SpoofedSync,
                    Suspect {
                        after,
                        before: config.clock,
                    },
                    config,
                    out,
                );
            }
        }
        for kept in self
            .syncs
            .iter_mut()
            .filter(|kept| kept.sequence == sequence)
        {
            kept.used = true;
        }
        self.accept(
            waiting.origin,
            waiting.correction + sync.facts.correction,
            sync,
            true,
        );
    }

    fn fail(
        &self,
        sequence: u16,
        reason: Reason,
        upstream: Option<&Neighbour>,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        // What a neighbour hands on it may have been handed itself, except
        // where it would have had to notice.
        let after = match reason {
            Reason::DuplicateSync | Reason::Delayed | Reason::Flood => None,
            _ => upstream.map(|n| n.port.clock),
        };
        self.report(
            sequence,
            reason,
            Suspect {
                after,
                before: config.clock,
            },
            config,
            out,
        );
    }

    fn report(
        &self,
        sequence: u16,
        reason: Reason,
        suspect: Suspect,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) {
        let source = self.parent.unwrap_or_default();
        out.report(Report::Failure(Failure {
            observer: config.clock,
            source,
            sequence,
            reason,
            suspect,
        }));
    }

    fn accept(
        &mut self,
        origin: Timestamp,
        correction: TimeInterval,
        sync: &Arrived,
        authenticated: bool,
    ) {
        if correction == TimeInterval::TOO_BIG {
            return;
        }
        let apart = sync.stamp - Stamp::from_ns(origin.as_ns());
        let forward = TimeInterval::from_ns(apart.as_ns()) - correction;
        self.samples.push_back(Sample {
            sequence: sync.sequence,
            arrived: sync.stamp,
            forward,
            authenticated,
            apart,
        });
    }

    pub(super) fn take_sample(&mut self) -> Option<Sample> {
        self.samples.pop_front()
    }

    /// Steers by `sample`; `true` when the clock was stepped.
    pub(super) fn discipline(
        &mut self,
        sample: &Sample,
        delay: TimeInterval,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) -> bool {
        if sample.apart.as_ns().unsigned_abs() > DAY_NS && !config.free_running {
            self.samples.clear();
            self.syncs.clear();
            self.jobs.clear();
            out.push(Action::Step(-sample.apart));
            return true;
        }
        let offset = sample.forward - delay;
        let (sequence, authenticated) = (sample.sequence, sample.authenticated);
        let master = self.parent.unwrap_or_default();
        out.report(Report::Offset {
            master,
            sequence,
            offset,
            delay,
            authenticated,
        });
        if authenticated && self.watch.sample(offset).is_some() {
            self.fail(sequence, Reason::Delayed, None, config, out);
            if config
                .security
                .as_ref()
                .is_some_and(|s| s.policy != Policy::Monitor)
            {
                return false;
            }
        }
        if config.free_running {
            return false;
        }
        match self.servo.sample(offset, sample.arrived, self.interval) {
            ServoOutput::Wait => false,
            ServoOutput::Frequency(ppb) => {
                out.push(Action::Frequency(ppb));
                false
            }
            ServoOutput::Step(length, ppb) => {
                self.watch = DelayWatch::new(config.jump_bound);
                // What has arrived was stamped by the clock before its step.
                self.syncs.clear();
                self.samples.clear();
                self.jobs.clear();
                out.push(Action::Frequency(ppb));
                out.push(Action::Step(length));
                true
            }
        }
    }
}
