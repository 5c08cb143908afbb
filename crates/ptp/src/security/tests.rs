//! Attacks that need the rogue's own signature over something untrue.

use std::sync::Arc;

use timeloom_wire::message::{FollowUp, Sync};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{
    ClockIdentity, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp,
};

use super::*;

const SUITES: [Suite; 2] = [Suite::Ed25519, Suite::Bls];

fn clock(node: u8) -> ClockIdentity {
    ClockIdentity([0, 0, 0, 0xff, 0xfe, 0, 0, node])
}

fn secret(suite: Suite, node: u8) -> SecretKey {
    SecretKey::from_random(suite, &[node + 1; 32])
}

fn member(suite: Suite, node: u8) -> Member {
    let key = secret(suite, node).public();
    Member {
        clock: clock(node),
        index: node.into(),
        epoch: 1,
        key,
        grandmaster: node == 0,
    }
}

struct Lab {
    suite: Suite,
    ring: Arc<KeyRing>,
    sync: SyncFacts,
}

impl Lab {
    fn new(suite: Suite, nodes: u8) -> Self {
        let mut ring = KeyRing::default();
        for node in 0..nodes {
            ring.insert(member(suite, node), &secret(suite, node).prove())
                .unwrap();
        }
        let origin = Sync {
            origin: Timestamp::from_ns(123_456_789),
        }
        .origin;
        Self {
            suite,
            ring: Arc::new(ring),
            sync: SyncFacts {
                origin,
                correction: TimeInterval::ZERO,
                vid: 0,
            },
        }
    }

    fn security(&self, node: u8) -> Security {
        Security {
            clock: clock(node),
            index: node.into(),
            secret: Arc::new(secret(self.suite, node)),
            epoch: 1,
            ring: self.ring.clone(),
            form: EntryForm::Full,
            policy: Policy::Strict,
            limits: Limits {
                max_hops: 32,
                ..Limits::default()
            },
            watch: false,
            secondary: false,
            bind_vid: false,
            first_sequence: 0,
        }
    }

    fn grandmaster(&self, next: u8, sequence: u16) -> Vec<u8> {
        let source = PortIdentity {
            clock: clock(0),
            port: 1,
        };
        let header = Header::new(MessageType::FollowUp, source, sequence);
        let body = FollowUp {
            precise_origin: Timestamp::from_ns(1_000_000_007),
        };
        let message = Message::new(header, body);
        let mut buffer = [0; 128];
        let security = self.security(0);
        let tlvs = security.sign_follow_up(
            &message.header,
            &body,
            &self.sync,
            7,
            clock(next),
            &mut buffer,
        );
        let mut bytes = [0; 256];
        let length = message.with_tlvs(tlvs).emit(&mut bytes).unwrap();
        bytes[..length].to_vec()
    }

    fn try_hop(
        &self,
        node: u8,
        message: &[u8],
        previous: u8,
        next: u8,
        ns: i64,
    ) -> Result<Vec<u8>, Reason> {
        let contribution = TimeInterval::from_ns(ns);
        let hop = Hop {
            ingress: 1,
            egress: 2,
            previous: clock(previous),
            next: clock(next),
            contribution,
        };
        self.security(node).extend(message, &self.sync, &hop)
    }

    fn hop(&self, node: u8, message: &[u8], previous: u8, next: u8, ns: i64) -> Vec<u8> {
        self.try_hop(node, message, previous, next, ns).unwrap()
    }

    /// Grandmaster 0 over 1, 2, … to `last`.
    fn chain(&self, last: u8) -> Vec<u8> {
        (1..last).fold(self.grandmaster(1, 5), |message, node| {
            self.hop(node, &message, node - 1, node + 1, 500)
        })
    }

    fn verify(&self, me: u8, message: &[u8]) -> Result<Accepted, Failure> {
        let security = self.security(me);
        let (ring, limits) = (self.ring.clone(), security.limits);
        let upstream = Some(clock(me - 1));
        VerifyJob::new(
            message.to_vec(),
            vec![self.sync],
            clock(me),
            upstream,
            ring,
            Policy::Strict,
            limits,
        )
        .run()
        .result
    }
}

#[test]
fn a_clock_that_taps_the_smaller_chain_cannot_leave_its_predecessor_out() {
    for suite in SUITES {
        let lab = Lab::new(suite, 5);
        assert!(lab.verify(4, &lab.chain(4)).is_ok());
        // Node 3 has seen what the grandmaster sent to node 1, and signs on it.
        let shorter = lab.hop(3, &lab.grandmaster(1, 5), 0, 4, 1_500);
        let failure = lab.verify(4, &shorter).unwrap_err();
        assert_eq!(failure.reason, Reason::Signature);
        if suite == Suite::Ed25519 {
            assert_eq!(
                failure.suspect,
                Suspect {
                    after: Some(clock(0)),
                    before: clock(3)
                }
            );
        }
    }
}

#[test]
fn what_was_meant_for_another_branch_does_not_hold_here() {
    for suite in SUITES {
        let lab = Lab::new(suite, 5);
        let elsewhere = lab.hop(1, &lab.grandmaster(1, 5), 0, 3, 500);
        let here = lab.hop(2, &elsewhere, 1, 4, 500);
        assert!(lab.verify(4, &here).is_err(), "{suite:?}");
    }
}

#[test]
fn a_hop_within_bounds_may_lie_about_itself_and_beyond_them_is_named() {
    for suite in SUITES {
        let lab = Lab::new(suite, 4);
        let lie = |ns| {
            let message = lab.hop(1, &lab.grandmaster(1, 5), 0, 2, ns);
            lab.verify(3, &lab.hop(2, &message, 1, 3, 500))
        };
        assert!(lie(400_000).is_ok(), "this is what cryptography cannot see");
        let failure = lie(2_000_000_000).unwrap_err();
        assert_eq!(failure.reason, Reason::Contribution);
        if suite == Suite::Ed25519 {
            assert!(failure.suspect.names(clock(1)));
        }
    }
}

#[test]
fn a_clock_cannot_sign_for_two() {
    let lab = Lab::new(Suite::Ed25519, 4);
    let once = lab.hop(1, &lab.grandmaster(1, 5), 0, 1, 500);
    let twice = lab.hop(1, &once, 1, 2, 500);
    assert_eq!(
        lab.verify(3, &lab.hop(2, &twice, 1, 3, 1))
            .unwrap_err()
            .reason,
        Reason::Path
    );
}

#[test]
fn keys_without_possession_and_retired_epochs_are_refused() {
    for suite in SUITES {
        let mut ring = KeyRing::default();
        let foreign = secret(suite, 9).prove();
        assert_eq!(
            ring.insert(member(suite, 1), &foreign),
            Err(KeyError::Proof)
        );
        let proof = secret(suite, 1).prove();
        assert_eq!(ring.insert(member(suite, 1), &proof), Ok(()));
        assert_eq!(ring.insert(member(suite, 1), &proof), Err(KeyError::Twice));
        let mut twin = member(suite, 2);
        twin.index = 1;
        assert_eq!(
            ring.insert(twin, &secret(suite, 2).prove()),
            Err(KeyError::Index)
        );

        let mut lab = Lab::new(suite, 4);
        let message = lab.chain(3);
        assert!(lab.verify(3, &message).is_ok());
        Arc::make_mut(&mut lab.ring).retire(1);
        assert_eq!(lab.verify(3, &message).unwrap_err().reason, Reason::Epoch);
    }
    assert!(PublicKey::from_bytes(Suite::Ed25519, &[0; 32]).is_none());
    assert!(PublicKey::from_bytes(Suite::Bls, &[0xc0; 96]).is_none());
}

#[test]
fn sizes_over_sixteen_hops_are_those_of_the_design() {
    for (suite, octets) in [(Suite::Bls, 44 + 354), (Suite::Ed25519, 44 + 1394)] {
        let lab = Lab::new(suite, 18);
        assert_eq!(lab.chain(17).len(), octets);
        assert!(lab.verify(17, &lab.chain(17)).is_ok());
    }
}

#[test]
fn a_path_too_long_for_a_frame_is_marked_and_goes_on() {
    let lab = Lab::new(Suite::Ed25519, 19);
    let full = lab.chain(17);
    assert_eq!(lab.try_hop(17, &full, 16, 18, 500), Err(Reason::TooLong));
    let marked = lab
        .security(17)
        .mark_incomplete(&full, TimeInterval::from_ns(500))
        .unwrap();
    assert_eq!(marked.len(), full.len());
    assert_eq!(
        lab.verify(18, &marked).unwrap_err().reason,
        Reason::Incomplete
    );
}
