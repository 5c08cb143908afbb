//! Decisions of a transparent clock on which Follow_Ups it signs.

use timeloom_time::Instant;
use timeloom_time::convert::low_u16;
use timeloom_wire::message::Body;
use timeloom_wire::{Header, Message, PortIdentity};

use super::TransparentClock;
use super::witness::{Pending, Purpose};
use crate::security::{
    Admission, Freshness, Hop, Role, Security, SigningResult, Statement, Suspect, SyncFacts,
    SyncName, Verdict, VerificationFailure, VerifyJob, ViolationKind, sequence_of, view_of,
};
use crate::{ClockReport, DriverAction, DropReason, Local, PtpPacket};

impl TransparentClock {
    /// Returns true if a Follow_Up may cause cryptographic work, including alarms.
    pub(super) fn is_admitted(
        &mut self,
        now: Instant<Local>,
        ingress: u16,
        message: &Message<'_>,
    ) -> bool {
        let (source, sequence) = (message.header.source, message.header.sequence_id);
        if !self.must_sign(&message.header) {
            return true; // it costs no more than an unsigned one
        }
        let admission = self.witness.admit(now, (source, ingress), sequence);
        if admission == Admission::Granted {
            return true;
        }
        self.out.dropped(ingress, DropReason::Flood);
        if admission == Admission::Alarm {
            let here = self.upstream(ingress);
            self.fail(source, sequence, ViolationKind::Flood, here);
        }
        false
    }

    /// Returns true if a signed Follow_Up was seen before, or is too old to tell. It is then not
    /// forwarded.
    pub(super) fn is_replay(
        &mut self,
        ingress: u16,
        packet: &PtpPacket,
        message: &Message<'_>,
    ) -> bool {
        let source = message.header.source;
        let signed = self
            .config
            .security
            .as_ref()
            .is_some_and(|s| s.ring.knows(source.clock));
        let Some(sequence48) = sequence_of(message).filter(|_| signed) else {
            return false;
        };
        let stream = (source, ingress);
        let is_replay = self.witness.is_replay(stream, sequence48, &packet.bytes);
        if is_replay {
            let suspect = self.upstream(ingress);
            self.fail(
                source,
                message.header.sequence_id,
                ViolationKind::Replay,
                suspect,
            );
        }
        is_replay
    }

    /// Returns the link by which messages arrive on port `ingress`.
    fn upstream(&self, ingress: u16) -> Suspect {
        let neighbour = self.peer_delay(ingress).and_then(|peer| peer.neighbour());
        Suspect {
            after: neighbour.map(|n| n.port.clock),
            before: self.config.clock,
        }
    }

    /// Chooses the Sync to which a Follow_Up belongs. There are several only under attack. In that
    /// case, or if the setting `watch` is true, the Follow_Up waits for its verification. Returns
    /// `None` if the Follow_Up waits or is dropped; otherwise the Sync, and the verification to
    /// start after the Follow_Up has been forwarded.
    pub(super) fn vouch(
        &mut self,
        ingress: u16,
        packet: &PtpPacket,
        message: &Message<'_>,
        slots: &[u64],
    ) -> Option<(u64, Option<DriverAction>)> {
        let first = *slots.first()?;
        let Some(security) = self.config.security.clone() else {
            return Some((first, None));
        };
        let (source, sequence) = (message.header.source, message.header.sequence_id);
        if !security.ring.knows(source.clock) {
            return Some((first, None));
        }
        let here = self.upstream(ingress);
        let unlocated = Suspect {
            after: None,
            ..here
        };
        if security.secondary {
            return Some((first, None));
        }
        self.witness.saw(ingress, &packet.bytes);
        let facts: Vec<SyncFacts> = slots
            .iter()
            .filter_map(|slot| self.relays.get(*slot).map(|relay| relay.facts))
            .collect();
        let distinct = facts
            .iter()
            .filter(|facts_| facts_.origin != facts[0].origin)
            .count();
        if slots.len() > 1 + distinct {
            self.fail(source, sequence, ViolationKind::DuplicateSync, unlocated);
        }
        let holds = distinct > 0 || security.watch;
        let advances = sequence_of(message)
            .is_some_and(|number| self.witness.should_advance((source, ingress), number));
        let mut verify = None;
        if holds || advances {
            let purpose = if holds {
                Purpose::Hold(packet.clone())
            } else {
                Purpose::Advance
            };
            let (id, lost) = self.witness.hand_out(Pending {
                id: 0,
                ingress,
                source,
                slots: slots.to_vec(),
                several: distinct > 0,
                purpose,
            });
            if lost {
                self.out.dropped(ingress, DropReason::QueueFull);
            }
            let job = self.job(id, &security, packet, facts, here);
            verify = Some(DriverAction::Verify(Box::new(job)));
        }
        if !holds {
            return Some((first, verify));
        }
        self.out.push(verify?);
        None
    }

    fn job(
        &self,
        id: u64,
        security: &Security,
        packet: &PtpPacket,
        syncs: Vec<SyncFacts>,
        here: Suspect,
    ) -> VerifyJob {
        VerifyJob {
            id,
            message: packet.bytes.clone(),
            syncs,
            me: self.config.clock,
            upstream: here.after,
            ring: security.ring.clone(),
            policy: security.policy,
            limits: security.limits,
        }
    }

    /// Handles the result of an [`DriverAction::Verify`].
    pub fn handle_verdict(&mut self, _now: Instant<Local>, verdict: &Verdict) {
        let Some(pending) = self.witness.take(verdict.id) else {
            return;
        };
        let (ingress, source) = (pending.ingress, pending.source);
        let accepted = match verdict.result {
            Ok(accepted) => accepted,
            Err(failure) => return self.not_accepted(failure, pending),
        };
        let sequence = low_u16(accepted.sequence48);
        self.expect(&accepted.moment, ingress);
        let here = self.upstream(ingress);
        let freshness = self
            .witness
            .verified((source, ingress), accepted.sequence48);
        let Purpose::Hold(packet) = pending.purpose else {
            return;
        };
        // Two verifications with the same number can be in progress at once.
        if matches!(freshness, Freshness::Used | Freshness::TooOld) {
            return self.fail(source, sequence, ViolationKind::Replay, here);
        }
        if pending.several {
            let unlocated = Suspect {
                after: None,
                ..here
            };
            self.fail(source, sequence, ViolationKind::SpoofedSync, unlocated);
        }
        if let Some(slot) = pending.slots.get(accepted.sync) {
            self.release(*slot, &packet, true);
        }
    }

    /// Announces a verified number, so that signatures for the following numbers can be prepared.
    /// Unverified numbers are not announced, because a forger could choose them.
    fn expect(&self, moment: &SyncName, ingress: u16) {
        let Some(security) = self.config.security.as_ref() else {
            return;
        };
        if moment.stream.epoch == security.epoch {
            let egress = (1..=self.config.ports).filter(|port| *port != ingress);
            security.secret.expect(moment, egress);
        }
    }

    /// Handles a failed verification. The Follow_Up is forwarded as a chain that broke here, unless
    /// an upstream clock has reported this already. Only the signatures of an Ed25519 chain
    /// show where the chain broke.
    fn not_accepted(&mut self, failure: VerificationFailure, pending: Pending) {
        self.out.alarm(failure);
        let (Purpose::Hold(packet), Some(first)) = (pending.purpose, pending.slots.first()) else {
            return;
        };
        // The authentic Follow_Up may arrive after the forged one.
        if self.witness.is_tried(*first) {
            return;
        }
        let watches = self.config.security.as_ref().is_some_and(|s| s.watch);
        if watches && failure.reason != ViolationKind::Restarted {
            self.relays.set_broken(*first);
        }
        self.release(*first, &packet, false);
    }

    /// Forwards a Follow_Up that belongs to the Sync in `slot`. The clock measures its rate only
    /// from a Follow_Up that is valid (`holds`), or that is the only one for its Sync.
    pub(super) fn release(&mut self, slot: u64, packet: &PtpPacket, holds: bool) {
        let is_free = self.relays.get(slot).is_some_and(|r| r.follow_up.is_none());
        if !is_free {
            return;
        }
        if holds && let Ok(message) = Message::parse(&packet.bytes) {
            self.syntonise(&message, slot);
        }
        self.relays
            .set_follow_up(slot, packet.bytes.clone(), packet.vlan);
        self.finish(slot);
    }

    pub(super) fn fail(
        &mut self,
        source: PortIdentity,
        sequence: u16,
        reason: ViolationKind,
        suspect: Suspect,
    ) {
        let observer = self.config.clock;
        self.out.alarm(VerificationFailure {
            observer,
            source,
            sequence,
            reason,
            suspect,
        });
    }

    /// Handles the result of an [`DriverAction::Sign`].
    pub fn handle_signed(&mut self, _now: Instant<Local>, signed: SigningResult) {
        self.signing = self.signing.saturating_sub(1);
        if let Some(failure) = signed.failure {
            self.out.alarm(failure);
        }
        let Some(message) = signed.message else {
            return;
        };
        self.out.forward(signed.egress, message, signed.vlan, None);
        self.out.report(ClockReport::Relayed {
            ingress: signed.ingress,
            egress: signed.egress,
            sequence: signed.sequence,
            residence: signed.residence,
        });
    }

    /// Returns true if the source of this Follow_Up is a grandmaster that must sign.
    pub(super) fn must_sign(&self, header: &Header) -> bool {
        let security = self.config.security.as_ref();
        security.is_some_and(|security| security.ring.knows(header.source.clock))
    }

    /// Sends this clock's statement to the slaves over the second network, if configured.
    pub(super) fn state(&mut self, bytes: &[u8], sent: &[u8], facts: &SyncFacts, hop: &Hop) {
        let Some(security) = self.config.security.as_ref().filter(|s| s.secondary) else {
            return;
        };
        let (Ok(message), Ok((after, _))) = (Message::parse(bytes), Header::parse(sent)) else {
            return;
        };
        let Body::FollowUp(body) = message.body else {
            return;
        };
        let header = &message.header;
        let (source, sequence, domain) = (header.source, header.sequence_id, header.domain);
        let port = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
        let statement = Statement {
            clock: self.config.clock,
            epoch: security.epoch,
            source,
            domain,
            sequence,
            next: hop.next,
            view: view_of(domain, source, sequence, body.precise_origin, facts.origin),
            correction_out: after.correction,
            role: Role::Hop {
                ingress: port(hop.ingress),
                egress: port(hop.egress),
                previous: hop.previous,
                contribution: hop.contribution,
            },
        };
        self.out
            .push(DriverAction::Statement(statement.sign(security)));
    }
}
