//! The secondary channel: statements on a second network about unchanged Syncs and Follow_Ups.

use crate::world::path::{GRANDMASTER, Path, offsets};
use crate::world::{Flight, World};
use timeloom_ptp::security::{VerificationFailure, ViolationKind};
use timeloom_ptp::{ClockReport, PortState};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{Header, MessageType, TimeInterval, message};

const ROGUE: usize = 2;

fn path(seed: u64) -> Path {
    let mut path = Path::new(seed, 4).signed(Suite::Ed25519, EntryForm::Full);
    path.secondary = true;
    path
}

fn failures(world: &World) -> Vec<VerificationFailure> {
    let all = world
        .reports
        .iter()
        .filter_map(|(_, _, report)| match report {
            ClockReport::Failure { failure, .. } => Some(*failure),
            _ => None,
        });
    all.collect()
}

fn is(flight: &Flight, kind: MessageType) -> bool {
    Header::parse(&flight.packet.bytes).is_ok_and(|(header, _)| header.message_type == kind)
}

#[test]
fn sync_and_follow_up_stay_as_they_are_and_every_hop_is_known() {
    let mut world = path(1).build();
    world.attack(Box::new(|flight| {
        if is(&flight, MessageType::Sync) || is(&flight, MessageType::FollowUp) {
            assert_eq!(flight.packet.bytes.len(), 44);
        }
        vec![flight]
    }));
    world.run_for(30.0);
    assert_eq!(failures(&world), []);
    let slave = path(1).slave();
    assert!(offsets(&world, slave).len() > 150);
    assert!(
        offsets(&world, slave)
            .iter()
            .all(|(_, authenticated)| *authenticated)
    );
    assert!(world.error_ns(slave, GRANDMASTER).abs() < 200);
}

#[test]
fn a_missing_statement_means_holdover_and_names_its_clock() {
    let mut world = path(2).build();
    world.run_for(12.0);
    let slave = path(2).slave();
    let used = offsets(&world, slave).len();
    world.second_attack = Box::new(|from, record| (from != ROGUE).then_some(record));
    world.run_for(5.0);
    assert!(offsets(&world, slave).len() <= used + 1);
    assert!(world.error_ns(slave, GRANDMASTER).abs() < 2_000);
    let all = failures(&world);
    assert!(all.len() >= 35, "{}", all.len());
    assert!(
        all.iter()
            .all(|f| f.reason == ViolationKind::Missing && f.suspect.names(world.identity(ROGUE)))
    );
}

/// A statement that was sent before the slave followed its master does not count as missing.
#[test]
fn statements_before_a_slave_followed_do_not_count_as_missing() {
    let mut world = path(2).build();
    let slave = path(2).slave();
    world.second_attack = Box::new(|_, _| None);
    let follows = |world: &World| {
        world.reports.iter().any(|(_, node, report)| {
            let state = PortState::Slave;
            *node == slave && matches!(report, ClockReport::State { state: of, .. } if *of == state)
        })
    };
    while !follows(&world) {
        world.run_for(0.01);
    }
    // This is shorter than the greatest transit time of a statement.
    world.run_for(0.15);
    world.second_attack = Box::new(|_, record| Some(record));
    world.run_for(5.0);
    assert_eq!(failures(&world), []);
    assert!(offsets(&world, slave).len() > 20);
    world.second_attack = Box::new(|_, _| None);
    world.run_for(2.0);
    let all = failures(&world);
    assert!(
        !all.is_empty()
            && all
                .iter()
                .all(|failure| failure.reason == ViolationKind::Missing)
    );
}

#[test]
fn loss_on_the_second_network_costs_samples_only() {
    let mut world = path(3).build();
    world.second.loss_permille = 20;
    world.run_for(30.0);
    let slave = path(3).slave();
    let used = offsets(&world, slave).len();
    assert!((150..225).contains(&used), "{used}");
    assert!(
        failures(&world)
            .iter()
            .all(|failure| failure.reason == ViolationKind::Missing)
    );
    assert!(world.error_ns(slave, GRANDMASTER).abs() < 300);
}

#[test]
fn changes_on_the_wire_are_traced_to_their_link() {
    type Change = fn(&mut Flight);
    let changes: [(&str, MessageType, Change); 3] = [
        ("correction", MessageType::FollowUp, |flight| {
            let (header, _) = Header::parse(&flight.packet.bytes).unwrap();
            let more = header.correction + TimeInterval::from_ns(1_000);
            message::patch_correction(&mut flight.packet.bytes, more).unwrap();
        }),
        ("origin time", MessageType::FollowUp, |flight| {
            flight.packet.bytes[43] ^= 0x40
        }),
        ("nonce", MessageType::Sync, |flight| {
            flight.packet.bytes[43] ^= 0x40
        }),
    ];
    for end in [(ROGUE, 2), (ROGUE - 1, 2)] {
        for (name, kind, change) in changes {
            let mut world = path(4).build();
            world.run_for(12.0);
            let slave = path(4).slave();
            let used = offsets(&world, slave).len();
            world.attack(Box::new(move |mut flight| {
                if flight.from == end && is(&flight, kind) {
                    change(&mut flight);
                }
                vec![flight]
            }));
            world.run_for(4.0);
            let all = failures(&world);
            assert!(all.len() >= 28, "{name}: {}", all.len());
            assert!(
                all.iter().all(|f| f.suspect.names(world.identity(ROGUE))),
                "{name} {:?}",
                all[0]
            );
            assert!(offsets(&world, slave).len() <= used + 1, "{name}");
        }
    }
}

#[test]
fn a_sync_whose_correction_was_altered_is_not_used() {
    for ns in [-1_000, 1_000] {
        let mut world = path(6).build();
        world.run_for(12.0);
        let slave = path(6).slave();
        let used = offsets(&world, slave).len();
        world.attack(Box::new(move |mut flight| {
            if flight.from == (ROGUE, 2) && is(&flight, MessageType::Sync) {
                message::patch_correction(&mut flight.packet.bytes, TimeInterval::from_ns(ns))
                    .unwrap();
            }
            vec![flight]
        }));
        world.run_for(4.0);
        let all = failures(&world);
        assert!(all.len() >= 28, "{ns}: {}", all.len());
        assert!(
            all.iter()
                .all(|f| f.reason == ViolationKind::Correction && f.suspect.after.is_none()),
            "{ns} {:?}",
            all[0]
        );
        assert!(offsets(&world, slave).len() <= used + 1, "{ns}");
    }
}

#[test]
fn a_forged_statement_is_not_believed() {
    let mut world = path(5).build();
    world.run_for(12.0);
    let slave = path(5).slave();
    let used = offsets(&world, slave).len();
    // An attacker changes the statements of node 2 on the second network.
    world.second_attack = Box::new(|from, mut record| {
        if from == ROGUE {
            record[60] ^= 1;
        }
        Some(record)
    });
    world.run_for(4.0);
    let all = failures(&world);
    assert!(
        all.iter()
            .filter(|failure| failure.reason == ViolationKind::Signature)
            .count()
            >= 28
    );
    assert!(
        all.iter()
            .filter(|failure| failure.reason == ViolationKind::Missing)
            .count()
            >= 28
    );
    assert!(offsets(&world, slave).len() <= used + 1);
}
