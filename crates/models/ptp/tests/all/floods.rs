//! Floods of invalid signatures at every place where a signature is checked or computed. Their cost
//! is bounded, they are counted, one alarm per second names the link, and authentic Syncs are still
//! used.

use std::cell::RefCell;
use std::rc::Rc;

use crate::world::keys::identity;
use crate::world::path::{
    GRANDMASTER, Path, drops, failures, offsets, renumbered, sync_of, template,
};
use timeloom_ptp::security::{Limits, VerificationFailure, ViolationKind};
use timeloom_ptp::{DropReason, PortState};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{Header, MessageType};

const PER_S: u64 = Limits {
    failures_per_s: 50,
    max_hops: 0,
    max_contribution: timeloom_wire::TimeInterval::ZERO,
    min_contribution: timeloom_wire::TimeInterval::ZERO,
}
.failures_per_s as u64;

fn alarms(noticed: &[(usize, VerificationFailure)], node: usize) -> Vec<VerificationFailure> {
    let of = noticed
        .iter()
        .filter(|(of, f)| *of == node && f.reason == ViolationKind::Flood);
    of.map(|(_, failure)| *failure).collect()
}

/// Sends 2000 Syncs and Follow_Ups per second to a transparent clock, for three seconds.
fn at_a_transparent_clock(path: &Path) {
    const NODE: usize = 2;
    let suite = path.suite.expect("a signed path").0;
    let mut world = path.build();
    let follow_up = template(&mut world, NODE, MessageType::FollowUp);
    let (verified, signed) = (world.verified.clone(), world.signed.clone());
    let used = offsets(&world, path.slave()).len();
    for n in 0..6_000u16 {
        let forged = renumbered(&follow_up, n.wrapping_mul(7));
        let at = world.now_ns + i64::from(n) * 500_000;
        world.inject(at, (NODE, 1), sync_of(&forged));
        world.inject(at + 1_000, (NODE, 1), forged);
    }
    world.run_for(4.0);
    let noticed = failures(&world);
    let alarms = alarms(&noticed, NODE);
    assert!(
        (3..=5).contains(&alarms.len()),
        "{suite:?}: {}",
        alarms.len()
    );
    for alarm in alarms {
        assert!(alarm.suspect.names(identity(NODE)), "{suite:?}");
        assert!(
            alarm.suspect.names(identity(NODE - 1)),
            "{suite:?}: {alarm:?}"
        );
    }
    assert!(drops(&world, NODE, DropReason::Flood) > 5_000);
    // Up to five seconds may have begun, each with four attempts for each due number.
    let genuine = 4 << -path.profile.log_sync_interval;
    let most = 5 * PER_S + 4 * (48 + genuine);
    let more = |before: &std::collections::HashMap<_, _>,
                after: &std::collections::HashMap<_, _>| {
        after.get(&NODE).unwrap_or(&0) - before.get(&NODE).unwrap_or(&0)
    };
    assert!(more(&verified, &world.verified) <= most, "{suite:?}");
    assert!(more(&signed, &world.signed) <= most, "{suite:?}");
    let used = (offsets(&world, path.slave()).len() - used) as u64;
    assert!(
        used * 10 >= genuine * 8,
        "{suite:?}: {used} of {genuine} Syncs were used"
    );
    assert!(
        world.error_ns(path.slave(), GRANDMASTER).abs() < 2_000,
        "{suite:?}"
    );
}

#[test]
fn follow_ups_at_a_transparent_clock_that_signs() {
    at_a_transparent_clock(&Path::new(51, 3).signed(Suite::Ed25519, EntryForm::Full));
}

#[test]
fn follow_ups_at_a_transparent_clock_that_watches() {
    for suite in [Suite::Bls, Suite::BlsOnce] {
        let mut path = Path::new(52, 3).signed(suite, EntryForm::Full);
        path.profile.log_sync_interval = -2;
        path.profile.log_delay_interval = 0;
        at_a_transparent_clock(&path);
    }
}

#[test]
fn announces() {
    let path = Path::new(53, 2).signed(Suite::Ed25519, EntryForm::Full);
    let slave = path.slave();
    let mut world = path.build();
    let announce = template(&mut world, slave, MessageType::Announce);
    for n in 0..6_000u16 {
        let forged = renumbered(&announce, n.wrapping_mul(7));
        world.inject(world.now_ns + i64::from(n) * 500_000, (slave, 1), forged);
    }
    world.run_for(4.0);
    let noticed = failures(&world);
    let looked_at = noticed
        .iter()
        .filter(|(_, f)| f.reason == ViolationKind::Announce);
    let looked_at = looked_at.count() as u64;
    assert!(
        (50..=5 * PER_S + 4 * 48).contains(&looked_at),
        "{looked_at}"
    );
    assert!((3..=5).contains(&alarms(&noticed, slave).len()));
    assert!(drops(&world, slave, DropReason::Flood) > 5_000);
    assert_eq!(world.nodes[slave].as_ordinary().state(), PortState::Slave);
    assert!(world.error_ns(slave, GRANDMASTER).abs() < 1_000);
}

#[test]
fn peer_delay() {
    // A thousand forged answers precede each genuine one. They displace the genuine one, as jamming
    // would; the last measurement is used for eight intervals.
    const NODE: usize = 2;
    let path = Path::new(54, 3).signed(Suite::Ed25519, EntryForm::Full);
    let mut world = path.build();
    world.run_for(10.0);
    let used = offsets(&world, path.slave()).len();
    world.attack(Box::new(|flight| {
        let (header, _) = Header::parse(&flight.packet.bytes).expect("a message");
        if flight.from != (NODE - 1, 2) || header.message_type != MessageType::PdelayRespFollowUp {
            return vec![flight];
        }
        let mut forged = flight.clone();
        forged.packet.bytes[43] ^= 0x20;
        forged.arrives_ns -= 400;
        let mut all = vec![forged; 1_000];
        all.push(flight);
        all
    }));
    world.run_for(1.0);
    let noticed = failures(&world);
    let alarms = alarms(&noticed, NODE);
    assert!(
        (3..=5).contains(&alarms.len()),
        "one a request: {}",
        alarms.len()
    );
    assert!(noticed.iter().all(|(node, f)| *node == NODE
        && f.suspect.names(identity(NODE))
        && f.suspect.names(identity(NODE - 1))));
    let looked_at = noticed
        .iter()
        .filter(|(_, f)| f.reason == ViolationKind::Pdelay);
    assert!(looked_at.count() <= 16 * alarms.len());
    assert!(drops(&world, NODE, DropReason::Flood) > 2_500);
    assert!(offsets(&world, path.slave()).len() >= used + 7);
    assert!(world.error_ns(path.slave(), GRANDMASTER).abs() < 1_000);
}

#[test]
fn statements() {
    let mut path = Path::new(55, 3).signed(Suite::Ed25519, EntryForm::Full);
    path.secondary = true;
    let slave = path.slave();
    let mut world = path.build();
    let last = Rc::new(RefCell::new(Vec::new()));
    let log = last.clone();
    world.second_attack = Box::new(move |from, record| {
        if from == 2 {
            *log.borrow_mut() = record.clone();
        }
        Some(record)
    });
    world.run_for(10.0);
    assert_eq!(failures(&world), []);
    let used = offsets(&world, slave).len();
    let record = last.borrow().clone();
    for n in 0..6_000u16 {
        let mut forged = record.clone();
        forged[22..24].copy_from_slice(&n.wrapping_mul(7).to_be_bytes());
        world.inject_statement(world.now_ns + i64::from(n) * 500_000, slave, forged);
    }
    world.run_for(4.0);
    let noticed = failures(&world);
    let looked_at = noticed
        .iter()
        .filter(|(_, f)| f.reason == ViolationKind::Signature);
    let looked_at = looked_at.count() as u64;
    assert!(
        (50..=5 * PER_S + 4 * 80).contains(&looked_at),
        "{looked_at}"
    );
    // The sender on the second network is unknown, so the alarm accuses no clock.
    let alarms = alarms(&noticed, slave);
    assert!((3..=5).contains(&alarms.len()), "{}", alarms.len());
    assert!(alarms.iter().all(|alarm| alarm.suspect.after.is_none()));
    assert!(drops(&world, slave, DropReason::Flood) > 5_000);
    let used = offsets(&world, slave).len() - used;
    assert!(used >= 30, "{used} of 32 Syncs were used");
    assert!(world.error_ns(slave, GRANDMASTER).abs() < 1_000);
}
