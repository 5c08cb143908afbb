//! What a transparent clock answers for, and what it refuses to.

use timeloom_wire::message::Body;
use timeloom_wire::{Header, Message, PortIdentity};

use super::TransparentClock;
use crate::security::{
    Failure, Freshness, Hop, Reason, Role, Security, Statement, Suspect, SyncFacts, VerifyJob,
    sequence_of, view_of,
};
use crate::{Action, Packet, Report};

impl TransparentClock {
    /// A signed Follow_Up seen before, or older than can be told, goes no
    /// further. The window is the port's own: what comes in by another port
    /// cannot push it.
    pub(super) fn is_replay(&mut self, ingress: u16, message: &Message<'_>) -> bool {
        let source = message.header.source;
        let signed = self
            .config
            .security
            .as_ref()
            .is_some_and(|s| s.ring.knows(source.clock));
        let Some(sequence48) = sequence_of(message).filter(|_| signed) else {
            return false;
        };
        let window = self.replay.get(&(source, ingress));
        let freshness = window.map_or(Freshness::Newer, |window| window.judge(sequence48));
        let is_replay = matches!(freshness, Freshness::Used | Freshness::TooOld);
        if is_replay {
            let after = self
                .peer_delay(ingress)
                .and_then(|peer| peer.neighbour().map(|n| n.port.clock));
            let suspect = Suspect {
                after,
                before: self.config.clock,
            };
            self.fail(source, message.header.sequence_id, Reason::Replay, suspect);
        }
        is_replay
    }

    /// Chooses the Sync that a Follow_Up belongs to. There is a choice only
    /// when somebody interferes; only then, or when this clock watches, are
    /// signatures verified here. `None` when the message goes no further.
    pub(super) fn vouch(
        &mut self,
        ingress: u16,
        packet: &Packet,
        message: &Message<'_>,
        slots: &[u64],
    ) -> Option<u64> {
        let first = *slots.first()?;
        let Some(security) = self.config.security.clone() else {
            return Some(first);
        };
        let (source, sequence) = (message.header.source, message.header.sequence_id);
        if !security.ring.knows(source.clock) || security.secondary {
            return Some(first);
        }
        let upstream = self
            .peer_delay(ingress)
            .and_then(|peer| peer.neighbour().map(|n| n.port.clock));
        let here = Suspect {
            after: upstream,
            before: self.config.clock,
        };
        let facts: Vec<SyncFacts> = slots
            .iter()
            .filter_map(|slot| self.relays.get(*slot).map(|relay| relay.facts))
            .collect();
        let distinct = facts
            .iter()
            .filter(|facts_| facts_.origin != facts[0].origin)
            .count();
        if slots.len() > 1 + distinct {
            let suspect = Suspect {
                after: None,
                ..here
            };
            self.fail(source, sequence, Reason::DuplicateSync, suspect);
        }
        let mut chosen = first;
        if distinct > 0 || security.watch {
            let job = self.job(&security, packet, facts, here);
            match job.run().result {
                Ok(accepted) => {
                    chosen = slots[accepted.sync];
                    if distinct > 0 {
                        self.fail(
                            source,
                            sequence,
                            Reason::SpoofedSync,
                            Suspect {
                                after: None,
                                ..here
                            },
                        );
                    }
                }
                // It goes on all the same, as a chain that was broken here,
                // unless somebody upstream has said so already. Only the
                // signatures of an Ed25519 chain speak for themselves.
                Err(failure) => {
                    if security.watch && failure.reason != Reason::Restarted {
                        self.relays.set_broken(first);
                    }
                    self.out.report(Report::Failure(failure));
                }
            }
        }
        if let Some(sequence48) = sequence_of(message) {
            self.replay
                .entry((source, ingress))
                .or_default()
                .remember(sequence48);
        }
        Some(chosen)
    }

    fn job(
        &self,
        security: &Security,
        packet: &Packet,
        syncs: Vec<SyncFacts>,
        here: Suspect,
    ) -> VerifyJob {
        VerifyJob {
            id: 0,
            message: packet.bytes.clone(),
            syncs,
            me: self.config.clock,
            upstream: here.after,
            ring: security.ring.clone(),
            policy: security.policy,
            limits: security.limits,
        }
    }

    fn fail(&mut self, source: PortIdentity, sequence: u16, reason: Reason, suspect: Suspect) {
        let observer = self.config.clock;
        self.out.report(Report::Failure(Failure {
            observer,
            source,
            sequence,
            reason,
            suspect,
        }));
    }

    /// Whether this Follow_Up is of a grandmaster that signs.
    pub(super) fn must_sign(&self, bytes: &[u8]) -> bool {
        let Some(security) = &self.config.security else {
            return false;
        };
        Message::parse(bytes).is_ok_and(|message| security.ring.knows(message.header.source.clock))
    }

    /// What this clock tells the slaves by the second network, when it is to.
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
        self.out.push(Action::Statement(statement.sign(security)));
    }

    /// The Follow_Up with this clock's entry; or, when what came cannot be
    /// vouched for, a chain started anew that says so.
    pub(super) fn sign(
        &mut self,
        bytes: &[u8],
        facts: &SyncFacts,
        hop: &Hop,
        broken: bool,
    ) -> Option<Vec<u8>> {
        let security = self.config.security.clone()?;
        if !broken {
            match security.extend(bytes, facts, hop) {
                Ok(signed) => return Some(signed),
                Err(reason) => {
                    let (header, _) = Header::parse(bytes).ok()?;
                    let suspect = Suspect {
                        after: Some(hop.previous),
                        before: self.config.clock,
                    };
                    self.fail(header.source, header.sequence_id, reason, suspect);
                    if reason == Reason::TooLong {
                        return security.mark_incomplete(bytes, hop.contribution);
                    }
                }
            }
        }
        security.restart(bytes, facts, hop)
    }
}
