//! Attacks in which the attacker signs false data with its own valid key.

use std::sync::Arc;

use timeloom_wire::message::{FollowUp, Sync};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{
    ClockIdentity, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp,
};

use super::*;

const SUITES: [Suite; 3] = Suite::ALL;

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

    /// Returns the Follow_Up of a chain from grandmaster 0 over the nodes 1, 2, … to `last`.
    fn chain(&self, last: u8) -> Vec<u8> {
        (1..last).fold(self.grandmaster(1, 5), |message, node| {
            self.hop(node, &message, node - 1, node + 1, 500)
        })
    }

    fn verify(&self, me: u8, message: &[u8]) -> Result<VerifiedChain, Failure> {
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
        // Node 3 has seen the message that the grandmaster sent to node 1, and extends it.
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
fn messages_for_another_branch_do_not_verify() {
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
    for (suite, octets) in [
        (Suite::Bls, 44 + 354),
        (Suite::BlsOnce, 44 + 354),
        (Suite::Ed25519, 44 + 1394),
    ] {
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

/// Prepares a node's stock for the one Sync that the tests sign.
fn prepare(node: &Security, port: u16) {
    let source = PortIdentity {
        clock: clock(0),
        port: 1,
    };
    let header = Header::new(MessageType::FollowUp, source, 5);
    let before = Moment::new(&header, 1, (7 << 16 | 5) - 1);
    node.secret.keep(Box::<MemoryLedger>::default());
    node.secret.expect(&before, std::iter::once(port));
    node.secret.prepare(&mut crate::SplitMix64(1));
}

fn marks(message: &[u8]) -> Vec<u8> {
    let message = Message::parse(message).unwrap();
    let tlv = message.tlvs.iter().next().unwrap();
    let tlv = timeloom_wire::tlv::SignedTlv::parse(tlv, ORGANIZATION);
    let entries = tlv.unwrap().unwrap();
    entries
        .entries()
        .map(|(entry, _)| entry.egress_port)
        .collect()
}

#[test]
fn a_clock_that_is_made_to_sign_a_sync_twice_does_not() {
    let lab = Lab::new(Suite::BlsOnce, 5);
    let node = lab.security(1);
    prepare(&node, 2);
    let hop = |contribution| Hop {
        ingress: 1,
        egress: 2,
        previous: clock(0),
        next: clock(2),
        contribution: TimeInterval::from_ns(contribution),
    };
    // Two Follow_Ups with one number: the grandmaster's, and a copy with another residence time.
    let from_grandmaster = lab.grandmaster(1, 5);
    let once = node
        .extend(&from_grandmaster, &lab.sync, &hop(500))
        .unwrap();
    let again = node
        .extend(&from_grandmaster, &lab.sync, &hop(900))
        .unwrap();
    let restarted = node.restart(&from_grandmaster, &lab.sync, &hop(1)).unwrap();
    assert_eq!(marks(&once), [2]);
    assert_eq!(marks(&again), [0x82], "an ordinary signature");
    assert_eq!(marks(&restarted), [0, 0x82]);
    // Each of the two chains is valid.
    for message in [&once, &again] {
        assert!(lab.verify(2, message).is_ok());
    }
    // Nor is there a ticket for a port for which the clock has no key.
    let mut elsewhere = hop(500);
    elsewhere.egress = 3;
    let message = node
        .extend(&from_grandmaster, &lab.sync, &elsewhere)
        .unwrap();
    assert_eq!(marks(&message), [0x83]);
    assert!(lab.verify(2, &message).is_ok());
    elsewhere.egress = 300;
    let message = node
        .extend(&from_grandmaster, &lab.sync, &elsewhere)
        .unwrap();
    assert_eq!(marks(&message), [0xff]);
    assert!(lab.verify(2, &message).is_ok());
}

#[test]
fn prepared_and_ordinary_signatures_hold_in_one_sum_and_neither_passes_for_the_other() {
    for compact in [false, true] {
        let lab = Lab::new(Suite::BlsOnce, 8);
        let mut grandmaster = lab.security(0);
        if compact {
            grandmaster.form = EntryForm::Compact;
        }
        prepare(&grandmaster, 1);
        let source = PortIdentity {
            clock: clock(0),
            port: 1,
        };
        let body = FollowUp {
            precise_origin: Timestamp::from_ns(1_000_000_007),
        };
        let plain = Message::new(Header::new(MessageType::FollowUp, source, 5), body);
        let mut message = Vec::new();
        // In the second iteration nothing is prepared.
        for _ in 0..2 {
            let (mut buffer, mut bytes) = ([0; 128], [0; 256]);
            let tlvs = grandmaster.sign_follow_up(
                &plain.header,
                &body,
                &lab.sync,
                7,
                clock(1),
                &mut buffer,
            );
            let length = plain.with_tlvs(tlvs).emit(&mut bytes).unwrap();
            message = bytes[..length].to_vec();
            for node in 1..6 {
                let security = lab.security(node);
                if node % 2 == 1 {
                    prepare(&security, 2);
                }
                let hop = Hop {
                    ingress: 1,
                    egress: 2,
                    previous: clock(node - 1),
                    next: clock(node + 1),
                    contribution: TimeInterval::from_ns(500),
                };
                message = security.extend(&message, &lab.sync, &hop).unwrap();
            }
            let ordinary = if compact { 0 } else { 0x82 };
            assert_eq!(marks(&message), [2, ordinary, 2, ordinary, 2]);
            assert!(lab.verify(6, &message).is_ok());
            let (flags, first, each) = (55, 62, if compact { 8 } else { 18 });
            let mut changed = message.clone();
            changed[flags] ^= 128;
            assert!(lab.verify(6, &changed).is_err());
            for hop in 0..5 {
                let mut changed = message.clone();
                let at = first + hop * each;
                if compact {
                    changed[at] ^= 2 << 2;
                } else {
                    changed[at + 9] ^= 0x80;
                }
                assert!(lab.verify(6, &changed).is_err(), "hop {hop}");
            }
        }
        assert_eq!(message[55] & 128, 128);
    }
}

#[test]
fn a_chain_that_was_started_anew_has_no_signature_of_a_key_that_serves_once() {
    let lab = Lab::new(Suite::BlsOnce, 5);
    let node = lab.security(2);
    let hop = Hop {
        ingress: 1,
        egress: 2,
        previous: clock(1),
        next: clock(3),
        contribution: TimeInterval::from_ns(500),
    };
    let genuine = lab.hop(1, &lab.grandmaster(1, 5), 0, 2, 500);
    let restarted = node.restart(&genuine, &lab.sync, &hop).unwrap();
    // The neighbour of the node has a ticket for number 5, which a restarted chain would have. It
    // signs with its ordinary key nevertheless.
    let next = lab.security(3);
    let header = Message::parse(&restarted).unwrap().header;
    next.secret.keep(Box::<MemoryLedger>::default());
    next.secret
        .expect(&Moment::new(&header, 1, 4), std::iter::once(2));
    next.secret.prepare(&mut crate::SplitMix64(1));
    assert!(next.secret.is_prepared_for(&Moment::new(&header, 1, 5), 2));
    let hop = Hop {
        previous: clock(2),
        next: clock(4),
        ..hop
    };
    let message = next.extend(&restarted, &lab.sync, &hop).unwrap();
    assert_eq!(marks(&message), [0, 0x82, 0x82]);
    let failure = lab.verify(4, &message).unwrap_err();
    assert_eq!(failure.reason, Reason::Restarted);
    assert_eq!(
        failure.suspect,
        Suspect {
            after: Some(clock(1)),
            before: clock(2)
        }
    );
}
