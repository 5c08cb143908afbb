//! Replays of old messages, and sequence numbers that wrap.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::world::keys::{identity, ring, security};
use crate::world::node::Machine;
use crate::world::path::{
    GRANDMASTER, Path, drops, failures, offsets, renumbered, sync_of, template,
};
use crate::world::{Flight, World};
use timeloom_ptp::security::ViolationKind;
use timeloom_ptp::{DropReason, OrdinaryClock, OrdinaryConfig, PortState, PtpPacket};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{Header, MessageType, VlanTag};

const ROGUE: usize = 2;

fn header(packet: &PtpPacket) -> Header {
    Header::parse(&packet.bytes).expect("a message").0
}

fn is_timing(flight: &Flight) -> bool {
    let kind = header(&flight.packet).message_type;
    matches!(kind, MessageType::Sync | MessageType::FollowUp)
}

/// Replaces the grandmaster by one with the same keys whose numbers start after `first_sequence`.
/// This simulates a restart, or the same grandmaster much later.
fn restart(world: &mut World, path: &Path, first_sequence: u64) {
    let (suite, form) = path.suite.expect("a signed path");
    let ring = std::sync::Arc::new(ring(suite, path.hops + 2, &[]));
    let mut config = OrdinaryConfig::new(identity(GRANDMASTER), path.profile);
    let mut keys = security(suite, form, GRANDMASTER, &ring);
    keys.secondary = path.secondary;
    keys.first_sequence = first_sequence;
    config.security = Some(keys);
    let clock = OrdinaryClock::new(config, world.local());
    world.nodes[GRANDMASTER].machine = Machine::Ordinary(Box::new(clock));
    world.wake(GRANDMASTER);
}

/// First 48-bit number of the grandmasters in these worlds.
const START: u64 = 1_700_000_000 << 16 | 0xff00;

/// Replays the Sync and Follow_Up with a given number as they left the rogue. They replace those
/// with the same low 16 bits, 65,536 Syncs later. Every signature is genuine.
fn replayed_after_the_wrap(mut path: Path) {
    path.rogue = Some(ROGUE);
    let mut world = path.build();
    let kept = Rc::new(RefCell::new(HashMap::new()));
    let log = kept.clone();
    world.attack(Box::new(move |flight| {
        if flight.from == (ROGUE, 2) && is_timing(&flight) {
            let header = header(&flight.packet);
            log.borrow_mut().insert(
                (header.message_type, header.sequence_id),
                flight.packet.clone(),
            );
        }
        vec![flight]
    }));
    world.run_for(12.0);
    assert_eq!(failures(&world), []);
    // The test does not simulate each message up to the wrap. It replaces the grandmaster by one
    // that has the numbers after the wrap.
    restart(&mut world, &path, START + 65_536);
    world.attack(Box::new(|flight| vec![flight]));
    world.run_for(6.0);
    assert_eq!(
        failures(&world),
        [],
        "{:?}: going on is no replay",
        path.suite
    );
    let used = offsets(&world, path.slave()).len();
    let attacked = Rc::new(RefCell::new(0));
    let count = attacked.clone();
    world.attack(Box::new(move |mut flight| {
        if flight.from == (ROGUE, 2) && is_timing(&flight) {
            let header = header(&flight.packet);
            let key = (header.message_type, header.sequence_id);
            if let Some(old) = kept.borrow().get(&key) {
                flight.packet = old.clone();
                *count.borrow_mut() += 1;
            }
        }
        vec![flight]
    }));
    world.run_for(4.0);
    let attacked = *attacked.borrow() / 2;
    assert!(attacked >= 4, "{:?}: {attacked}", path.suite);
    let noticed = failures(&world);
    let named = noticed
        .iter()
        .filter(|(node, f)| *node != ROGUE && f.suspect.names(identity(ROGUE)));
    assert!(
        named.clone().count() >= attacked,
        "{:?}: {noticed:?}",
        path.suite
    );
    assert!(
        named
            .clone()
            .any(|(_, f)| f.reason == ViolationKind::Replay),
        "{noticed:?}"
    );
    assert_eq!(
        noticed.len(),
        named.count(),
        "no other clock is accused: {noticed:?}"
    );
    assert!(offsets(&world, path.slave()).len() <= used + 1);
    assert!(world.error_ns(path.slave(), GRANDMASTER).abs() < 2_000);
}

#[test]
fn a_replay_after_sequence_id_has_wrapped_is_refused_by_the_next_clock() {
    replayed_after_the_wrap(Path::new(41, 4).signed(Suite::Ed25519, EntryForm::Full));
    // The clock after the rogue is the slave itself.
    replayed_after_the_wrap(Path::new(42, 2).signed(Suite::Ed25519, EntryForm::Compact));
}

#[test]
fn replays_of_an_aggregate_are_refused_after_sequence_id_has_wrapped() {
    for suite in [Suite::Bls, Suite::BlsOnce] {
        let mut path = Path::new(43, 4).signed(suite, EntryForm::Full);
        path.profile.log_sync_interval = -1;
        path.profile.log_delay_interval = 0;
        replayed_after_the_wrap(path);
    }
}

#[test]
fn forty_eight_bits_do_not_wrap_the_grandmaster_falls_silent() {
    let path = Path::new(44, 2).signed(Suite::Ed25519, EntryForm::Full);
    let mut world = path.build();
    world.run_for(8.0);
    restart(&mut world, &path, (1 << 48) - 40);
    world.run_for(60.0);
    assert_eq!(failures(&world), [], "numbers that jump ahead are genuine");
    assert!(drops(&world, GRANDMASTER, DropReason::SequenceUsedUp) > 100);
    let used = offsets(&world, path.slave()).len();
    // A grandmaster that restarts from zero is rejected, although its signatures are genuine.
    restart(&mut world, &path, 0);
    world.run_for(10.0);
    assert_eq!(offsets(&world, path.slave()).len(), used);
    let noticed = failures(&world);
    assert!(noticed.len() > 8, "{}", noticed.len());
    assert!(
        noticed
            .iter()
            .all(|(_, f)| f.reason == ViolationKind::Replay)
    );
    let slave = world.nodes[path.slave()].as_ordinary();
    assert_eq!(
        slave.state(),
        PortState::Listening,
        "no time, and it says so"
    );
}

#[test]
fn a_forger_cannot_push_the_window_ahead_of_the_grandmaster() {
    // At each clock on the path in turn, inject a Follow_Up with a number of the far future and a
    // random signature, with a matching Sync.
    for node in 1..=4 {
        let path = Path::new(45, 3).signed(Suite::Ed25519, EntryForm::Full);
        let slave = path.slave();
        let mut world = path.build();
        let template = template(&mut world, node, MessageType::FollowUp);
        let before = offsets(&world, slave).len();
        for n in 0..20i64 {
            let mut follow_up = renumbered(&template, n as u16);
            follow_up.bytes[58..62].copy_from_slice(&[0xff, 0xff, 0xff, n as u8]);
            let at = world.now_ns + n * 100_000_000;
            world.inject(at, (node, 1), sync_of(&follow_up));
            world.inject(at + 1_000, (node, 1), follow_up);
        }
        world.run_for(4.0);
        let noticed = failures(&world);
        assert!(noticed.len() >= 20, "{node}: {}", noticed.len());
        assert!(
            noticed
                .iter()
                .all(|(_, f)| f.reason != ViolationKind::Replay),
            "{node}: what is genuine is not taken for a replay"
        );
        assert!(
            noticed.iter().all(|(_, f)| f.suspect.names(identity(node))),
            "{node}: {noticed:?}"
        );
        let used = offsets(&world, slave).len() - before;
        assert!(used >= 31, "{node}: {used} of 32 Syncs were used");
        assert!(world.error_ns(slave, GRANDMASTER).abs() < 1_000);
    }
}

#[test]
fn a_bound_vlan_identifier_holds_in_its_vlan_only() {
    let run = |bind_vid: bool| {
        let mut path = Path::new(46, 3).signed(Suite::Ed25519, EntryForm::Full);
        path.bind_vid = bind_vid;
        path.profile.vlan = Some(VlanTag {
            vid: 5,
            ..VlanTag::POWER_PROFILE
        });
        let mut world = path.build();
        world.run_for(10.0);
        assert_eq!(failures(&world), []);
        let used = offsets(&world, path.slave()).len();
        assert!(used > 30);
        world.attack(Box::new(|mut flight| {
            if flight.from == (ROGUE, 2) && is_timing(&flight) {
                flight.packet.vlan = flight.packet.vlan.map(|tag| VlanTag { vid: 6, ..tag });
            }
            vec![flight]
        }));
        world.run_for(3.0);
        let more = offsets(&world, path.slave()).len() - used;
        (more, failures(&world))
    };
    let (used, noticed) = run(true);
    assert!(used <= 1, "{used}");
    assert!(noticed.len() >= 20);
    assert!(
        noticed
            .iter()
            .all(|(_, f)| f.suspect.names(identity(ROGUE))),
        "{noticed:?}"
    );
    let (used, noticed) = run(false);
    assert!(used >= 22 && noticed.is_empty(), "{used} {noticed:?}");
}

#[test]
fn statements_of_the_past_do_not_make_an_old_sync_new() {
    // Sync, Follow_Up and all statements about them are repeated one second later.
    let mut path = Path::new(47, 3).signed(Suite::Ed25519, EntryForm::Full);
    path.secondary = true;
    let slave = path.slave();
    let mut world = path.build();
    world.run_for(12.0);
    assert_eq!(failures(&world), []);
    let (packets, records) = (Rc::new(RefCell::new(vec![])), Rc::new(RefCell::new(vec![])));
    let log = packets.clone();
    world.attack(Box::new(move |flight| {
        if flight.to.0 == slave && is_timing(&flight) {
            log.borrow_mut().push(flight.packet.clone());
        }
        vec![flight]
    }));
    let log = records.clone();
    world.second_attack = Box::new(move |_, record| {
        // The record reaches every receiver; it is repeated only once.
        if !log.borrow().contains(&record) {
            log.borrow_mut().push(record.clone());
        }
        Some(record)
    });
    world.run_for(0.5);
    world.attack(Box::new(|flight| vec![flight]));
    world.run_for(1.0);
    let before = offsets(&world, slave).len();
    let now = world.now_ns;
    for packet in packets.borrow().iter() {
        world.inject(now + 10_000_000, (slave, 1), packet.clone());
    }
    for record in records.borrow().iter() {
        world.inject_statement(now + 20_000_000, slave, record.clone());
    }
    world.run_for(2.0);
    let noticed = failures(&world);
    assert!(noticed.len() >= 3, "{noticed:?}");
    let of = |(node, f): &(usize, timeloom_ptp::security::VerificationFailure)| {
        *node == slave
            && matches!(
                f.reason,
                ViolationKind::Replay | ViolationKind::DuplicateSync
            )
    };
    assert!(noticed.iter().all(of), "{noticed:?}");
    let used = offsets(&world, slave).len() - before;
    assert!(
        (14..=17).contains(&used),
        "{used}: the genuine ones, and only those"
    );
    assert!(world.error_ns(slave, GRANDMASTER).abs() < 1_000);
}
