//! Mutated bytes of genuine messages as input of every parser and state machine.
//!
//! By default the tests are seeded and short. `TIMELOOM_FUZZ_S=600 cargo test -p timeloom-ptp
//! --test all fuzz::` runs for ten minutes, and `TIMELOOM_SEED=n` sets another seed. The tests
//! check more than the absence of panics: a parsed message is written back unchanged, and a chain
//! that still verifies differs only in octets that are not signed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::world::World;
use crate::world::keys::{identity, ring, security};
use crate::world::path::{Path, chance};
use timeloom_ptp::security::{
    GroupKey, Hop, Limits, Statement, SyncFacts, VerificationPolicy, VerifyJob,
};
use timeloom_ptp::{PtpPacket, RandomSource};
use timeloom_wire::message::Body;
use timeloom_wire::tlv::{EntryForm, Suite, TlvBody};
use timeloom_wire::{ClockIdentity, Message, TimeInterval};

const SEED: u64 = 61;

/// Returns the seed of this run; a failing test prints it.
fn seed() -> u64 {
    let set = std::env::var("TIMELOOM_SEED").ok();
    set.map_or(SEED, |text| {
        text.parse().expect("TIMELOOM_SEED is a number")
    })
}

/// Calls `turn` `times` times, or for the duration given in the environment.
fn repeat(times: usize, mut turn: impl FnMut(u64)) {
    let set = std::env::var("TIMELOOM_FUZZ_S").ok();
    let seconds = set.map(|text| text.parse().expect("TIMELOOM_FUZZ_S is a number"));
    let start = Instant::now();
    for n in 0.. {
        let goes_on = match seconds {
            Some(seconds) => start.elapsed() < Duration::from_secs(seconds),
            None => n < times,
        };
        if !goes_on {
            break;
        }
        turn(n as u64);
    }
}

/// Returns some of the messages that arrive at `node`, and the statements on the second network.
fn corpus(
    suite: Suite,
    node: usize,
    secondary: bool,
) -> (Path, World, Vec<PtpPacket>, Vec<Vec<u8>>) {
    let mut path = Path::new(SEED, 3).signed(suite, EntryForm::Full);
    path.secondary = secondary;
    path.profile.log_sync_interval = 0;
    path.profile.log_delay_interval = 0;
    let (packets, records) = (Rc::new(RefCell::new(vec![])), Rc::new(RefCell::new(vec![])));
    let mut world = path.build();
    let log = packets.clone();
    world.attack(Box::new(move |flight| {
        if flight.to.0 == node {
            log.borrow_mut().push(flight.packet.clone());
        }
        vec![flight]
    }));
    let log = records.clone();
    world.second_attack = Box::new(move |_, record| {
        log.borrow_mut().push(record.clone());
        Some(record)
    });
    world.run_for(9.0);
    world.attack(Box::new(|flight| vec![flight]));
    let (packets, records) = (packets.borrow().clone(), records.borrow().clone());
    (path, world, packets, records)
}

/// Flips, overwrites, inserts, removes or duplicates bytes, one to four times.
fn mutate(bytes: &mut Vec<u8>, random: &mut dyn RandomSource) {
    let mut below = |n: usize| (random.next_u64() % n.max(1) as u64) as usize;
    for _ in 0..=below(4) {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let at = below(bytes.len());
        match below(8) {
            0..=2 => bytes[at] ^= 1 << below(8),
            3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][below(5)],
            4 => bytes.truncate(at),
            5 => bytes.insert(at, below(256) as u8),
            6 => {
                let end = (at + below(24)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + below(90)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    // Half of the messages get a matching length, so that more of the parser is reached.
    if bytes.len() >= 4 && below(2) == 0 {
        let length = (bytes.len() as u16).to_be_bytes();
        bytes[2..4].copy_from_slice(&length);
    }
}

#[test]
fn parsed_messages_are_emitted_unchanged() {
    let (_, _, packets, _) = corpus(Suite::Ed25519, 2, false);
    let mut random = chance(seed());
    let mut parsed = 0;
    repeat(60_000, |n| {
        let mut bytes = packets[(random.next_u64() % packets.len() as u64) as usize]
            .bytes
            .clone();
        mutate(&mut bytes, &mut random);
        let Ok(message) = Message::parse(&bytes) else {
            return;
        };
        parsed += 1;
        message.tlvs.iter().for_each(|tlv| {
            let _ = TlvBody::parse(tlv);
        });
        let mut buffer = vec![0; bytes.len() + 64];
        let length = message
            .emit(&mut buffer)
            .unwrap_or_else(|error| panic!("seed {} turn {n}: {error:?}", seed()));
        let again = Message::parse(&buffer[..length]);
        assert_eq!(again, Ok(message), "seed {} turn {n}: {bytes:02x?}", seed());
    });
    assert!(
        parsed > 1_000,
        "{parsed}: the mutations are too wild to say anything"
    );
}

/// Returns true for octets that no signature covers, because hops change them or clocks ignore
/// them.
fn unsigned(at: usize) -> bool {
    // Minor version, the first octet of the flags, correction (its sum is checked),
    // messageTypeSpecific, control, interval.
    matches!(at, 1 | 6 | 16..=19 | 32 | 33)
}

fn chains(suite: Suite, times: usize) {
    let (path, _, packets, _) = corpus(suite, 4, false);
    let ring = Arc::new(ring(suite, 5, &[]));
    let mut pairs = Vec::new();
    let mut sync = None;
    for packet in &packets {
        let message = Message::parse(&packet.bytes).expect("genuine");
        match message.body {
            Body::Sync(body) => {
                sync = Some(SyncFacts {
                    origin: body.origin,
                    correction: message.header.correction,
                    vid: 0,
                });
            }
            Body::FollowUp(_) => pairs.extend(sync.take().map(|s| (s, packet.bytes.clone()))),
            _ => {}
        }
    }
    assert!(pairs.len() > 3);
    let job = |sync, message| {
        let (me, before) = (identity(path.slave()), identity(path.slave() - 1));
        let (limits, ring) = (Limits::default(), ring.clone());
        VerifyJob::new(
            message,
            vec![sync],
            me,
            Some(before),
            ring,
            VerificationPolicy::Strict,
            limits,
        )
    };
    for (sync, message) in &pairs {
        assert!(job(*sync, message.clone()).run().result.is_ok());
    }
    let keys = security(suite, EntryForm::Full, 4, &ring);
    let hop = Hop {
        ingress: 1,
        egress: 2,
        previous: identity(3),
        next: ClockIdentity::default(),
        contribution: TimeInterval::from_ns(5),
    };
    let mut random = chance(seed());
    let mut reasons = BTreeSet::new();
    repeat(times, |n| {
        let (sync, original) = &pairs[(random.next_u64() % pairs.len() as u64) as usize];
        let mut bytes = original.clone();
        mutate(&mut bytes, &mut random);
        match job(*sync, bytes.clone()).run().result {
            Ok(_) => {
                let differs = |at: &usize| bytes.get(*at) != original.get(*at) && !unsigned(*at);
                let at = (0..original.len()).find(|at| differs(at));
                assert_eq!(at, None, "seed {} turn {n}: accepted", seed());
            }
            Err(failure) => {
                reasons.insert(format!("{:?}", failure.reason));
            }
        }
        // A hop extends any message, or reports why it cannot.
        let _ = keys.extend(&bytes, sync, &hop);
    });
    for reason in ["Signature", "Malformed", "Correction", "Unsigned", "Path"] {
        assert!(
            reasons.contains(reason),
            "never reached {reason}: {reasons:?}"
        );
    }
}

#[test]
fn no_mutated_chain_is_accepted_ed25519() {
    chains(Suite::Ed25519, 6_000);
}

#[test]
fn no_mutated_chain_is_accepted_bls() {
    chains(Suite::Bls, 1_200);
}

#[test]
fn no_mutated_chain_is_accepted_of_prepared_signatures() {
    chains(Suite::BlsOnce, 1_200);
}

#[test]
fn no_mutated_statement_is_believed() {
    let (_, _, _, records) = corpus(Suite::Ed25519, 4, true);
    let ring = ring(Suite::Ed25519, 5, &[]);
    assert!(records.iter().all(|r| Statement::verify(r, &ring).is_ok()));
    let mut random = chance(seed());
    repeat(5_000, |n| {
        let original = &records[(random.next_u64() % records.len() as u64) as usize];
        let mut bytes = original.clone();
        mutate(&mut bytes, &mut random);
        let believed = Statement::verify(&bytes, &ring).is_ok();
        assert!(!believed || bytes == *original, "seed {} turn {n}", seed());
    });
}

#[test]
fn no_mutated_message_is_the_groups() {
    let (_, _, packets, _) = corpus(Suite::Ed25519, 2, false);
    let key = GroupKey::new(1, 2, &[3; 32]);
    let mut random = chance(seed());
    repeat(10_000, |n| {
        let plain = &packets[(random.next_u64() % packets.len() as u64) as usize].bytes;
        let protected = key.protect(plain).expect("genuine");
        let mut bytes = protected.clone();
        mutate(&mut bytes, &mut random);
        // Bytes after messageLength are padding.
        let same = bytes.starts_with(&protected);
        assert_eq!(key.check(&bytes).is_ok(), same, "seed {} turn {n}", seed());
    });
}

#[test]
fn clocks_bear_anything_and_stay_on_time() {
    // Forty mutated messages per second arrive at a transparent clock and at the slave.
    for (suite, secondary, seconds) in [
        (Suite::Ed25519, false, 20),
        (Suite::Ed25519, true, 10),
        (Suite::Bls, false, 4),
        (Suite::BlsOnce, false, 4),
    ] {
        let (path, mut world, packets, records) = corpus(suite, 2, secondary);
        let mut random = chance(seed());
        for n in 0..seconds * 40 {
            let at = world.now_ns + n * 25_000_000;
            for node in [2, path.slave()] {
                let mut packet =
                    packets[(random.next_u64() % packets.len() as u64) as usize].clone();
                mutate(&mut packet.bytes, &mut random);
                world.inject(at, (node, 1), packet);
            }
            if !records.is_empty() {
                let mut record =
                    records[(random.next_u64() % records.len() as u64) as usize].clone();
                mutate(&mut record, &mut random);
                world.inject_statement(at, path.slave(), record);
            }
        }
        world.run_for(seconds as f64 + 5.0);
        let error_ns = world.error_ns(path.slave(), crate::world::path::GRANDMASTER);
        assert!(
            error_ns.abs() < 20_000,
            "seed {} {suite:?}: {error_ns} ns",
            seed()
        );
    }
}
