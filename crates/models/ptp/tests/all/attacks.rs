//! Attacks on signed messages by a malicious transparent clock, or by an attacker on the wire
//! behind it. Node 2 of four hops is the malicious one (the rogue); it has a valid key. Each attack
//! must be detected every time, must not move the slave, and must be located at a link with the
//! rogue at one end.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::world::path::{self, GRANDMASTER, Path, offsets};
use crate::world::{Flight, World};
use timeloom_ptp::security::VerificationFailure;
use timeloom_wire::message::patch_length;
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{Header, Message, MessageType, TimeInterval, message};

const ROGUE: usize = 2;

/// Effect of an attack on a packet that passes the attacker; true if the packet was attacked.
type Change = fn(&mut Attacker, Flight) -> (Vec<Flight>, bool);

struct Attacker {
    suite: Suite,
    kept: Vec<Flight>,
    seen: u64,
}

fn kind(flight: &Flight) -> MessageType {
    Header::parse(&flight.packet.bytes)
        .expect("nodes send messages")
        .0
        .message_type
}

fn sequence(flight: &Flight) -> u16 {
    Header::parse(&flight.packet.bytes)
        .expect("nodes send messages")
        .0
        .sequence_id
}

/// Returns the octets of the n-th entry of a full chain in a Follow_Up.
fn entry(suite: Suite, n: usize) -> std::ops::Range<usize> {
    let (first, each) = if suite.is_aggregate() {
        (62, 18)
    } else {
        (62 + 64, 82)
    };
    first + n * each..first + (n + 1) * each
}

fn add(bytes: &mut [u8], at: usize, amount: i64) {
    let field: [u8; 8] = bytes[at..at + 8].try_into().expect("eight octets");
    let value = i64::from_be_bytes(field).wrapping_add(amount);
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn correct(bytes: &mut [u8], ns: i64) {
    let (header, _) = Header::parse(bytes).expect("a message");
    message::patch_correction(bytes, header.correction + TimeInterval::from_ns(ns))
        .expect("a header");
}

fn shorten(bytes: &mut [u8]) {
    let length = bytes.len() as u16;
    patch_length(bytes, length).expect("a header");
    if length > 44 {
        bytes[46..48].copy_from_slice(&(length - 48).to_be_bytes());
    }
}

/// Changes a Follow_Up after the rogue has sent it.
fn behind(flight: Flight, change: impl FnOnce(&mut Vec<u8>)) -> (Vec<Flight>, bool) {
    change_at(flight, (ROGUE, 2), change)
}

/// Changes a Follow_Up before the rogue signs it with its own key.
fn before(flight: Flight, change: impl FnOnce(&mut Vec<u8>)) -> (Vec<Flight>, bool) {
    change_at(flight, (ROGUE - 1, 2), change)
}

fn change_at(
    flight: Flight,
    from: (usize, u16),
    change: impl FnOnce(&mut Vec<u8>),
) -> (Vec<Flight>, bool) {
    change_of(MessageType::FollowUp, flight, from, change)
}

fn change_of(
    of: MessageType,
    mut flight: Flight,
    from: (usize, u16),
    change: impl FnOnce(&mut Vec<u8>),
) -> (Vec<Flight>, bool) {
    if flight.from != from || kind(&flight) != of {
        return (vec![flight], false);
    }
    change(&mut flight.packet.bytes);
    (vec![flight], true)
}

const ATTACKS: &[(&str, Change)] = &[
    ("origin time altered", |_, f| {
        behind(f, |bytes| bytes[43] ^= 0x40)
    }),
    ("origin time altered before signing", |_, f| {
        before(f, |bytes| bytes[43] ^= 0x40)
    }),
    ("correction altered", |_, f| {
        behind(f, |bytes| correct(bytes, 1_000))
    }),
    ("a Sync's correction lowered", |_, f| {
        change_of(MessageType::Sync, f, (ROGUE, 2), |bytes| {
            correct(bytes, -1_000);
        })
    }),
    ("a Sync's correction raised", |_, f| {
        change_of(MessageType::Sync, f, (ROGUE, 2), |bytes| {
            correct(bytes, 1_000);
        })
    }),
    ("correction altered before signing", |_, f| {
        before(f, |bytes| correct(bytes, 1_000))
    }),
    ("another hop's contribution altered", |a, f| {
        let at = entry(a.suite, 0).start + 10;
        behind(f, |bytes| {
            (add(bytes, at, 1_000 << 16), correct(bytes, 1_000)).0
        })
    }),
    (
        "another hop's contribution altered before signing",
        |a, f| {
            let at = entry(a.suite, 0).start + 10;
            before(f, |bytes| {
                (add(bytes, at, 1_000 << 16), correct(bytes, 1_000)).0
            })
        },
    ),
    ("own contribution altered after signing", |a, f| {
        let at = entry(a.suite, 1).start + 10;
        behind(f, |bytes| {
            (add(bytes, at, -(1_000 << 16)), correct(bytes, -1_000)).0
        })
    }),
    ("ports altered before signing", |a, f| {
        let at = entry(a.suite, 0).start + 8;
        before(f, |bytes| bytes[at] ^= 3)
    }),
    ("a hop removed", |a, f| {
        let gone = entry(a.suite, 0);
        behind(f, |bytes| {
            bytes.drain(gone);
            bytes[57] -= 1;
            shorten(bytes);
        })
    }),
    ("all hops and the rogue itself removed", |a, f| {
        let gone = entry(a.suite, 0).start..entry(a.suite, 1).end;
        behind(f, |bytes| {
            bytes.drain(gone);
            bytes[57] -= 2;
            shorten(bytes);
        })
    }),
    ("hops reordered", |a, f| {
        let (first, second) = (entry(a.suite, 0), entry(a.suite, 1));
        behind(f, |bytes| {
            let one = bytes[first.clone()].to_vec();
            bytes.copy_within(second.clone(), first.start);
            bytes[second].copy_from_slice(&one);
        })
    }),
    ("chains of two Syncs spliced", |a, f| {
        let range = entry(a.suite, 0);
        if f.from != (ROGUE, 2) || kind(&f) != MessageType::FollowUp {
            return (vec![f], false);
        }
        let old = a.kept.pop();
        a.kept.push(f.clone());
        let Some(old) = old else {
            return (vec![f], false);
        };
        behind(f, |bytes| {
            bytes[range.clone()].copy_from_slice(&old.packet.bytes[range])
        })
    }),
    ("TLV stripped", |_, f| {
        behind(f, |bytes| {
            bytes.truncate(44);
            shorten(bytes);
        })
    }),
    ("TLV stripped before signing", |_, f| {
        before(f, |bytes| {
            bytes.truncate(44);
            shorten(bytes);
        })
    }),
    ("wrong epoch", |_, f| behind(f, |bytes| bytes[56] = 2)),
    ("wrong suite", |a, f| {
        let other = if a.suite == Suite::BlsOnce { 4 } else { 3 };
        behind(f, |bytes| bytes[54] ^= other)
    }),
    ("the grandmaster's kind of key altered", |_, f| {
        behind(f, |bytes| bytes[55] ^= 128)
    }),
    ("another hop's kind of key altered", |a, f| {
        let at = entry(a.suite, 0).start + 9;
        behind(f, |bytes| bytes[at] ^= 0x80)
    }),
    (
        "another hop's port of egress altered before signing",
        |a, f| {
            let at = entry(a.suite, 0).start + 9;
            before(f, |bytes| bytes[at] ^= 3)
        },
    ),
    ("high sequence altered", |_, f| {
        behind(f, |bytes| bytes[58] ^= 1)
    }),
    ("another hop framed by spoiling its signature", |a, f| {
        let at = if a.suite.is_aggregate() {
            44 + 66 + 20
        } else {
            entry(a.suite, 0).end - 9
        };
        before(f, |bytes| {
            let at = at.min(bytes.len() - 9);
            bytes[at] ^= 1;
        })
    }),
    ("a restart forged to frame another hop", |_, f| {
        behind(f, |bytes| bytes[55] |= 16)
    }),
    ("Sync's nonce altered", |_, mut f| {
        let hit = f.from == (ROGUE, 2) && kind(&f) == MessageType::Sync;
        if hit {
            f.packet.bytes[43] ^= 0x10;
        }
        (vec![f], hit)
    }),
    ("a spoofed Sync before the genuine one", |_, f| {
        if f.from != (ROGUE, 2) || kind(&f) != MessageType::Sync {
            return (vec![f], false);
        }
        let mut spoof = f.clone();
        spoof.packet.bytes[43] ^= 0x10;
        spoof.arrives_ns -= 400;
        (vec![spoof, f], true)
    }),
    (
        "the Sync once more, late, before its Follow_Up",
        |_, mut f| {
            if f.from != (ROGUE, 2) {
                return (vec![f], false);
            }
            match kind(&f) {
                MessageType::Sync => {
                    let mut copy = f.clone();
                    copy.arrives_ns += 1_000_000;
                    (vec![f, copy], true)
                }
                MessageType::FollowUp => {
                    f.arrives_ns += 2_000_000;
                    (vec![f], false)
                }
                _ => (vec![f], false),
            }
        },
    ),
    ("Sync and Follow_Up replayed", |a, f| {
        if f.from != (ROGUE, 2) || !matches!(kind(&f), MessageType::Sync | MessageType::FollowUp) {
            return (vec![f], false);
        }
        a.kept.push(f.clone());
        if kind(&f) != MessageType::FollowUp || a.kept.len() < 4 {
            return (vec![f], false);
        }
        let mut old: Vec<Flight> = a.kept.drain(..2).collect();
        for (n, old) in old.iter_mut().enumerate() {
            old.arrives_ns = f.arrives_ns + 30_000_000 + n as i64 * 100_000;
        }
        // The attacked message is the older one.
        old.push(f);
        old.rotate_right(1);
        (old, true)
    }),
    ("peer delay forged", |_, mut f| {
        let hit = f.from == (ROGUE, 2) && kind(&f) == MessageType::PdelayRespFollowUp;
        if hit {
            f.packet.bytes[43] ^= 0x20;
        }
        (vec![f], hit)
    }),
];

fn attacked(path: &Path, suite: Suite, change: Change) -> (World, Rc<RefCell<BTreeSet<u16>>>) {
    let mut world = path.build();
    world.run_for(8.0);
    assert!(failures(&world).is_empty(), "no alarm before the attack");
    world.reports.clear();
    let hit = Rc::new(RefCell::new(BTreeSet::new()));
    let log = hit.clone();
    let mut attacker = Attacker {
        suite,
        kept: Vec::new(),
        seen: 0,
    };
    world.attack(Box::new(move |flight| {
        attacker.seen += 1;
        let (flights, is_attack) = change(&mut attacker, flight);
        if is_attack {
            // A replayed message has the older message's number.
            let of = flights
                .get(1)
                .filter(|f| f.held_ns >= 0 && kind(f) == MessageType::Sync);
            log.borrow_mut().insert(sequence(of.unwrap_or(&flights[0])));
        }
        flights
    }));
    world.run_for(6.0);
    world.attack(Box::new(|flight| vec![flight]));
    world.run_for(1.0);
    if suite == Suite::BlsOnce {
        assert!(world.once.once > world.once.ordinary, "little was prepared");
    }
    (world, hit)
}

fn failures(world: &World) -> Vec<(usize, VerificationFailure)> {
    let mut all = path::failures(world);
    // Reports of the rogue itself do not count.
    all.retain(|(node, _)| *node != ROGUE);
    all
}

fn check(name: &str, suite: Suite, path: &Path, change: Change) {
    let (world, hit) = attacked(path, suite, change);
    let failures = failures(&world);
    let hit = hit.borrow();
    assert!(hit.len() >= 3, "{suite:?} {name}: {} attacks", hit.len());
    let noticed: BTreeSet<u16> = failures
        .iter()
        .map(|(_, failure)| failure.sequence)
        .collect();
    let missed: Vec<_> = hit.difference(&noticed).collect();
    assert!(
        missed.is_empty(),
        "{suite:?} {name}: not noticed {missed:?} of {}",
        hit.len()
    );
    let rogue = world.identity(ROGUE);
    for (node, failure) in &failures {
        // The report names a link of the rogue, or it is "anything upstream of me" from a clock
        // downstream of the rogue; in that case the nearest report counts.
        let named =
            failure.suspect.names(rogue) || (failure.suspect.after.is_none() && *node > ROGUE);
        assert!(named, "{suite:?} {name}: {failure:?} accuses another");
    }
    for sequence in hit.iter() {
        let of = failures
            .iter()
            .filter(|(_, failure)| failure.sequence == *sequence);
        // Clocks forward a Sync before they can verify it, so its correction may have been altered
        // anywhere upstream of the slave.
        let is_of_sync = name.starts_with("a Sync's correction");
        let traced = of.clone().any(|(node, failure)| {
            let is_untraced = is_of_sync && failure.suspect.after.is_none();
            failure.suspect.names(rogue) || *node == ROGUE + 1 || is_untraced
        });
        assert!(
            traced,
            "{suite:?} {name}: no clock names the rogue for {sequence}"
        );
    }
    for (offset, authenticated) in offsets(&world, path.slave()) {
        assert!(
            !authenticated || offset.abs() < 300.0,
            "{suite:?} {name}: moved by {offset} ns"
        );
    }
    assert!(
        world.error_ns(path.slave(), GRANDMASTER).abs() < 20_000,
        "{suite:?} {name}"
    );
}

fn run_all(suite: Suite, log_sync_interval: i8) {
    for (n, (name, change)) in ATTACKS.iter().enumerate() {
        let mut path = Path::new(100 + n as u64, 4).signed(suite, EntryForm::Full);
        path.rogue = Some(ROGUE);
        path.profile.log_sync_interval = log_sync_interval;
        path.profile.log_delay_interval = if suite.is_aggregate() { 1 } else { 0 };
        check(name, suite, &path, *change);
    }
}

#[test]
fn every_attack_on_an_ed25519_chain_is_noticed_and_traced() {
    run_all(Suite::Ed25519, -3);
}

#[test]
fn every_attack_on_a_bls_aggregate_is_noticed_and_traced() {
    run_all(Suite::Bls, 0);
}

/// The simulated world checks that no clock signs a Sync twice, including the rogue, whose keys are
/// in the same program. `security::once::tests` has attacks by a rogue that runs other programs.
#[test]
fn every_attack_on_an_aggregate_of_prepared_signatures_is_noticed_and_traced() {
    run_all(Suite::BlsOnce, 0);
}

#[test]
fn reasons_are_those_of_the_attack() {
    let reason = |name: &str| {
        let (_, change) = ATTACKS
            .iter()
            .find(|(of, _)| *of == name)
            .expect("an attack of the list");
        let mut path = Path::new(7, 4).signed(Suite::Ed25519, EntryForm::Full);
        path.rogue = Some(ROGUE);
        path.profile.log_delay_interval = 0;
        let (world, _) = attacked(&path, Suite::Ed25519, *change);
        let reasons: BTreeSet<_> = failures(&world)
            .iter()
            .map(|(_, f)| format!("{:?}", f.reason))
            .collect();
        reasons.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert!(reason("TLV stripped").contains("Unsigned"));
    assert!(reason("wrong epoch").contains("Epoch"));
    assert!(reason("Sync and Follow_Up replayed").contains("Replay"));
    assert!(reason("peer delay forged").contains("Pdelay"));
    assert!(reason("a spoofed Sync before the genuine one").contains("SpoofedSync"));
    assert!(reason("correction altered").contains("Correction"));
    assert!(reason("a Sync's correction lowered").contains("Correction"));
    assert!(reason("origin time altered").contains("Signature"));
}

#[test]
fn messages_are_still_messages_after_an_attack() {
    // The attacks above must test signatures and not the parser, so each must leave a parseable
    // message.
    for (n, (name, change)) in ATTACKS.iter().enumerate() {
        let mut path = Path::new(n as u64, 4).signed(Suite::Ed25519, EntryForm::Full);
        path.profile.log_sync_interval = 0;
        let mut world = path.build();
        world.run_for(5.0);
        let mut attacker = Attacker {
            suite: Suite::Ed25519,
            kept: Vec::new(),
            seen: 0,
        };
        world.attack(Box::new(move |flight| {
            let (flights, _) = change(&mut attacker, flight);
            flights
                .iter()
                .for_each(|f| assert!(Message::parse(&f.packet.bytes).is_ok(), "{name}"));
            flights
        }));
        world.run_for(3.0);
    }
}
