//! Attacks outside of a chain: other masters, floods, delays, and slaves that raise false alarms.

use std::sync::Arc;

use crate::world::keys::{identity, ring, security};
use crate::world::path::{GRANDMASTER, Path, failures, offsets, renumbered, sync_of, template};
use timeloom_ptp::security::{
    Limits, SyncFacts, VerificationFailure, VerificationPolicy, VerifyJob, ViolationKind,
    sign_announce,
};
use timeloom_ptp::{ClockReport, PortState, PtpPacket};
use timeloom_wire::message::{Announce, Body};
use timeloom_wire::tlv::{EntryForm, Suite, TlvWriter};
use timeloom_wire::{Header, Message, MessageType, PortIdentity};

fn signed(seed: u64, hops: usize) -> Path {
    Path::new(seed, hops).signed(Suite::Ed25519, EntryForm::Full)
}

/// Returns an Announce of `node` that is better than the grandmaster's. It is signed with the
/// node's own key, or not signed if `bare` is true.
fn better_announce(node: usize, sequence: u16, bare: bool) -> PtpPacket {
    let source = PortIdentity {
        clock: identity(node),
        port: 1,
    };
    let header = Header::new(MessageType::Announce, source, sequence);
    let body = Announce {
        grandmaster: identity(node),
        grandmaster_priority1: 1,
        ..Announce::default()
    };
    let message = Message::new(header, body);
    let keys = security(
        Suite::Ed25519,
        EntryForm::Full,
        node,
        &Arc::new(ring(Suite::Ed25519, 0, &[])),
    );
    let mut buffer = [0; 256];
    let mut writer = TlvWriter::new(&mut buffer);
    if !bare {
        sign_announce(&keys, &message.header, &body, 5, &mut writer);
    }
    let mut bytes = [0; 256];
    let length = message.with_tlvs(writer.finish()).emit(&mut bytes).unwrap();
    PtpPacket {
        bytes: bytes[..length].to_vec(),
        vlan: None,
    }
}

#[test]
fn a_second_grandmaster_is_not_followed_without_authority() {
    // Node 2 has a key, but may not be grandmaster; node 77 has neither key nor permission.
    for (node, bare, reason) in [
        (2, false, ViolationKind::NotAuthorised),
        (2, true, ViolationKind::Unsigned),
        (77, false, ViolationKind::UnknownSigner),
        (77, true, ViolationKind::Unsigned),
    ] {
        let path = signed(21, 3);
        let mut world = path.build();
        world.run_for(10.0);
        for n in 0..10 {
            let at = world.now_ns + i64::from(n) * 400_000_000;
            world.inject(at, (path.slave(), 1), better_announce(node, n as u16, bare));
        }
        world.run_for(8.0);
        let followed = world.reports.iter().any(|(_, of, report)| {
            *of == path.slave()
                && matches!(report, ClockReport::State { grandmaster: Some(g), .. } if *g != identity(GRANDMASTER))
        });
        assert!(!followed);
        let noticed = failures(&world);
        assert_eq!(noticed.len(), 10, "{node} {bare}");
        assert!(
            noticed.iter().all(|(_, failure)| failure.reason == reason),
            "{noticed:?}"
        );
    }
}

#[test]
fn a_replayed_announce_keeps_no_master_alive() {
    let path = signed(22, 1);
    let slave = path.slave();
    let mut world = path.build();
    let kept = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = kept.clone();
    world.attack(Box::new(move |flight| {
        if flight.to.0 == slave && flight.packet.bytes[0] & 0xf == MessageType::Announce as u8 {
            log.borrow_mut().push(flight.packet.clone());
        }
        vec![flight]
    }));
    world.run_for(10.0);
    // The grandmaster falls silent, and the attacker replays its messages.
    world.attack(Box::new(|flight| {
        if flight.from.0 == 0 {
            vec![]
        } else {
            vec![flight]
        }
    }));
    for (n, packet) in kept.borrow().iter().enumerate() {
        world.inject(
            world.now_ns + n as i64 * 700_000_000,
            (slave, 1),
            packet.clone(),
        );
    }
    world.run_for(10.0);
    assert_eq!(
        world.nodes[slave].as_ordinary().state(),
        PortState::Listening,
        "no time, and it says so"
    );
    assert!(
        failures(&world)
            .iter()
            .all(|(_, f)| f.reason == ViolationKind::Replay)
    );
    assert!(!failures(&world).is_empty());
}

#[test]
fn a_flood_of_bad_signatures_is_bounded_and_good_time_goes_on() {
    let path = signed(23, 2);
    let slave = path.slave();
    let mut world = path.build();
    let template = template(&mut world, slave, MessageType::FollowUp);
    let before = offsets(&world, slave).len();
    // 2000 messages per second for five seconds, each with another number and its own Sync.
    for n in 0..10_000u16 {
        let follow_up = renumbered(&template, n);
        let at = world.now_ns + i64::from(n) * 500_000;
        world.inject(at, (slave, 1), sync_of(&follow_up));
        world.inject(at + 1_000, (slave, 1), follow_up);
    }
    world.run_for(6.0);
    let failures = failures(&world);
    let looked_at = failures
        .iter()
        .filter(|(_, f)| f.reason != ViolationKind::Flood)
        .count();
    assert!(
        failures
            .iter()
            .any(|(_, f)| f.reason == ViolationKind::Flood)
    );
    assert!(
        looked_at <= 7 * Limits::default().failures_per_s as usize,
        "{looked_at} verifications"
    );
    let used = offsets(&world, slave).len() - before;
    assert!(used >= 40, "{used} Syncs were used all the same");
    assert!(world.error_ns(slave, GRANDMASTER).abs() < 2_000);
}

#[test]
fn a_delay_that_begins_is_noticed_and_not_followed() {
    let path = signed(24, 3);
    let slave = path.slave();
    let mut world = path.build();
    world.run_for(15.0);
    // Every Sync is delayed by half a millisecond between two clocks. A wire does not sign, so no
    // clock can be named.
    world.attack(Box::new(|mut flight| {
        if flight.from == (2, 2) && flight.packet.bytes[0] & 0xf == MessageType::Sync as u8 {
            flight.arrives_ns += 500_000;
        }
        vec![flight]
    }));
    world.run_for(5.0);
    let noticed = failures(&world);
    assert!(noticed.len() >= 35, "{}", noticed.len());
    assert!(noticed.iter().all(|(node, f)| *node == slave
        && f.reason == ViolationKind::Delayed
        && f.suspect.after.is_none()));
    assert!(
        world.error_ns(slave, GRANDMASTER).abs() < 2_000,
        "held over"
    );
}

/// The slave is the source of a timeline: its clock is not adjusted, so it drifts during a silence.
#[test]
fn an_unsteered_clock_accepts_syncs_again_after_a_silence() {
    let mut path = signed(26, 3);
    path.steer = false;
    let slave = path.slave();
    let mut world = path.build();
    let start_ns = world.now_ns;
    world.clocks[slave].steer(start_ns, 30_000.0);
    world.run_for(30.0);
    let before = world.error_ns(slave, GRANDMASTER);
    world.attack(Box::new(|flight| {
        let is_sync = flight.packet.bytes[0] & 0xf == MessageType::Sync as u8;
        if is_sync { vec![] } else { vec![flight] }
    }));
    world.run_for(60.0);
    let drifted = world.error_ns(slave, GRANDMASTER) - before;
    assert!(drifted > 500_000, "five times the bound: {drifted}");
    world.attack(Box::new(|flight| vec![flight]));
    let silent = offsets(&world, slave).len();
    let failed = failures(&world).len();
    world.run_for(5.0);
    assert!(offsets(&world, slave).len() > silent + 20);
    let rejected = failures(&world).split_off(failed);
    let delayed =
        |(_, failure): &&(usize, VerificationFailure)| failure.reason == ViolationKind::Delayed;
    assert_eq!(rejected.iter().find(delayed), None);
}

#[test]
fn a_link_that_becomes_longer_on_purpose_is_named() {
    let path = signed(25, 3);
    let mut world = path.build();
    world.run_for(15.0);
    // The delay is symmetric: it affects Sync and peer delay alike, in both directions.
    world.attack(Box::new(|mut flight| {
        if matches!((flight.from.0, flight.to.0), (2, 3) | (3, 2)) {
            flight.arrives_ns += 400_000;
        }
        vec![flight]
    }));
    world.run_for(5.0);
    let on_link: Vec<_> = failures(&world)
        .into_iter()
        .filter(|(node, f)| {
            f.reason == ViolationKind::Delayed
                && matches!(node, 2 | 3)
                && f.suspect.names(identity(2))
                && f.suspect.names(identity(3))
        })
        .collect();
    assert!(on_link.len() >= 10, "{:?}", failures(&world));
}

#[test]
fn stripped_for_good_means_holdover_not_plain_time() {
    let path = signed(26, 2);
    let slave = path.slave();
    let mut world = path.build();
    world.run_for(12.0);
    let used = offsets(&world, slave).len();
    world.attack(Box::new(|mut flight| {
        let bytes = &mut flight.packet.bytes;
        if flight.from == (0, 1) && bytes[0] & 0xf == MessageType::FollowUp as u8 {
            bytes.truncate(44);
            bytes[2..4].copy_from_slice(&44u16.to_be_bytes());
        }
        vec![flight]
    }));
    world.run_for(10.0);
    assert!(
        offsets(&world, slave).len() - used <= 1,
        "no unverified time is used"
    );
    assert!(
        world.error_ns(slave, GRANDMASTER).abs() < 2_000,
        "the learnt frequency carries on"
    );
    let first_hop = identity(1);
    assert!(
        failures(&world)
            .iter()
            .all(|(_, f)| f.suspect.names(first_hop))
    );
}

#[test]
fn monitor_reports_and_follows() {
    let mut path = signed(27, 2);
    path.policy = VerificationPolicy::Monitor;
    let slave = path.slave();
    let mut world = path.build();
    world.run_for(12.0);
    let used = offsets(&world, slave).len();
    world.attack(Box::new(|mut flight| {
        if flight.from == (2, 2) && flight.packet.bytes[0] & 0xf == MessageType::FollowUp as u8 {
            flight.packet.bytes[56] = 9;
        }
        vec![flight]
    }));
    world.run_for(5.0);
    let later = &offsets(&world, slave)[used..];
    assert!(
        later.len() > 30
            && later
                .iter()
                .skip(1)
                .all(|(_, authenticated)| !authenticated)
    );
    assert!(failures(&world).len() > 30);
}

#[test]
fn a_slave_that_cries_wolf_is_refuted_by_its_own_evidence() {
    // The slave claims that a Follow_Up was invalid, and presents it. Any holder of the public keys
    // can repeat the verification.
    let path = signed(28, 3);
    let slave = path.slave();
    let mut world = path.build();
    let evidence = std::rc::Rc::new(std::cell::RefCell::new((Vec::new(), Vec::new())));
    let log = evidence.clone();
    world.attack(Box::new(move |flight| {
        if flight.to.0 == slave {
            match flight.packet.bytes[0] & 0xf {
                0x0 => log.borrow_mut().0 = flight.packet.bytes.clone(),
                0x8 => log.borrow_mut().1 = flight.packet.bytes.clone(),
                _ => {}
            }
        }
        vec![flight]
    }));
    world.run_for(10.0);
    let (sync, follow_up) = evidence.borrow().clone();
    let sync = Message::parse(&sync).unwrap();
    let Body::Sync(body) = sync.body else {
        panic!("a Sync")
    };
    let mut job = VerifyJob::new(
        follow_up,
        vec![SyncFacts {
            origin: body.origin,
            correction: sync.header.correction,
            vid: 0,
        }],
        identity(slave),
        Some(identity(slave - 1)),
        Arc::new(ring(Suite::Ed25519, slave + 1, &[])),
        VerificationPolicy::Strict,
        Limits::default(),
    );
    assert!(job.run().result.is_ok(), "the complaint is unfounded");
    // If the slave itself had corrupted the evidence, the located place would be its own link.
    job.message[40] ^= 1;
    assert!(job.run().result.unwrap_err().suspect.names(identity(slave)));
}
