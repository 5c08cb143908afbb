//! Every Sync that a slave receives is reported once, as a record of exact integers.

use std::collections::BTreeMap;

use crate::world::path::Path;
use crate::world::{Flight, World};
use timeloom_ptp::security::ViolationKind;
use timeloom_ptp::{ClockReport, HopVerdict, SyncReport};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{Header, MessageType, SyncVerdict, TimeInterval};

fn records(world: &World, node: usize) -> Vec<SyncReport> {
    let of_node = world.reports.iter().filter(|(_, of, _)| *of == node);
    of_node
        .filter_map(|(_, _, report)| match report {
            ClockReport::Sync(sync) => Some((**sync).clone()),
            _ => None,
        })
        .collect()
}

fn assert_told_once(records: &[SyncReport]) {
    let mut numbers = BTreeMap::new();
    for sync in records {
        *numbers.entry(sync.record.sequence).or_insert(0) += 1;
    }
    let twice: Vec<_> = numbers.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

fn is(flight: &Flight, kind: MessageType) -> bool {
    Header::parse(&flight.packet.bytes).is_ok_and(|(header, _)| header.message_type == kind)
}

#[test]
fn a_record_agrees_with_the_measurement_and_its_hops_with_the_correction() {
    for secondary in [false, true] {
        let mut path = Path::new(11, 3).signed(Suite::Ed25519, EntryForm::Full);
        path.secondary = secondary;
        let mut world = path.build();
        world.run_for(8.0);
        world.reports.clear();
        world.run_for(8.0);
        let records = records(&world, path.slave());
        assert!(records.len() >= 60, "{}", records.len());
        assert_told_once(&records);
        let offsets = world
            .reports
            .iter()
            .filter_map(|(.., report)| match report {
                ClockReport::Offset { offset, delay, .. } => Some((*offset, *delay)),
                _ => None,
            });
        let told = records
            .iter()
            .map(|sync| (sync.record.offset.unwrap(), sync.record.path_delay.unwrap()));
        assert_eq!(told.collect::<Vec<_>>(), offsets.collect::<Vec<_>>());
        for sync in &records {
            assert_eq!(sync.record.verdict, SyncVerdict::Accepted);
            assert!(sync.failures.is_empty());
            assert_eq!(sync.hops.len(), 3, "{sync:?}");
            let hops = sync.hops.iter();
            let sum: TimeInterval = hops.clone().map(|hop| hop.contribution).sum();
            assert!(hops.clone().all(|hop| hop.verdict == HopVerdict::Holds));
            let rest = sync.record.correction.unwrap() - sum;
            assert!(rest.0.abs() < 1 << 16, "below a nanosecond: {rest:?}");
            // The offset can be computed from the other reported values, to the last bit.
            let apart_ns =
                sync.record.arrival.unwrap().as_ns() - sync.record.origin.unwrap().as_ns();
            let forward = TimeInterval::from_ns(apart_ns) - sync.record.correction.unwrap();
            assert_eq!(
                forward - sync.record.path_delay.unwrap(),
                sync.record.offset.unwrap()
            );
        }
    }
}

#[test]
fn a_sync_without_its_follow_up_is_told_as_incomplete() {
    let path = Path::new(12, 1);
    let mut world = path.build();
    world.run_for(8.0);
    world.reports.clear();
    world.attack(Box::new(|flight| {
        let lost = is(&flight, MessageType::FollowUp);
        if lost { Vec::new() } else { vec![flight] }
    }));
    world.run_for(4.0);
    let records = records(&world, path.slave());
    assert!(records.len() >= 8, "{}", records.len());
    assert_told_once(&records);
    let late = records.iter().filter(|sync| sync.record.origin.is_none());
    for sync in late.clone() {
        assert_eq!(sync.record.verdict, SyncVerdict::Incomplete);
        assert!(sync.record.arrival.is_some() && sync.record.correction.is_none());
    }
    assert!(late.count() >= 8);
}

#[test]
fn a_spoilt_sync_is_told_as_rejected_with_the_link_where_it_was_spoilt() {
    let path = Path::new(13, 3).signed(Suite::Ed25519, EntryForm::Full);
    let mut world = path.build();
    world.run_for(8.0);
    world.reports.clear();
    // The attack is on the link from the second hop to the third.
    world.attack(Box::new(|mut flight| {
        if flight.from.0 == 2 && is(&flight, MessageType::FollowUp) {
            // Octets 8 to 15 are the correction.
            flight.packet.bytes[13] ^= 1;
        }
        vec![flight]
    }));
    world.run_for(4.0);
    let records = records(&world, path.slave());
    assert_told_once(&records);
    let rejected: Vec<_> = records
        .iter()
        .filter(|sync| sync.record.verdict == SyncVerdict::Rejected)
        .collect();
    assert!(rejected.len() >= 8, "{records:?}");
    for sync in rejected {
        assert_eq!(sync.failures.len(), 1, "{sync:?}");
        assert_eq!(sync.failures[0].0, ViolationKind::Correction);
        assert_eq!(sync.record.offset, None);
        assert_eq!(sync.hops.len(), 3);
    }
    let alone = world.reports.iter().filter(|(_, node, report)| {
        *node == path.slave()
            && matches!(report, ClockReport::Failure { in_record, .. } if !in_record)
    });
    assert_eq!(alone.count(), 0, "each is in a record");
}
