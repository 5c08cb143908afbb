//! Clocks in a simulated world synchronise, and all delays between them are compensated.

use crate::world::link::Link;
use crate::world::path::{GRANDMASTER, Path, mean_and_deviation, offsets};
use timeloom_ptp::{ClockReport, DropReason, Drops, PortState, Profile};

#[test]
fn a_slave_behind_sixteen_transparent_clocks_agrees_within_a_hundred_nanoseconds() {
    let path = Path::new(1, 16);
    let mut world = path.build();
    world.run_for(60.0);
    let slave = path.slave();
    assert_eq!(world.nodes[slave].as_ordinary().state(), PortState::Slave);
    // Timestamps have 1 ns; hops take up to 50 µs; clocks are off by up to ± 20 ppm.
    assert!(
        world.error_ns(slave, GRANDMASTER).abs() < 100,
        "{}",
        world.error_ns(slave, GRANDMASTER)
    );
    let late: Vec<f64> = offsets(&world, slave)
        .iter()
        .rev()
        .take(100)
        .map(|(offset, _)| *offset)
        .collect();
    let (mean, deviation) = mean_and_deviation(&late);
    assert!(
        mean.abs() < 20.0 && deviation < 40.0,
        "mean {mean} ns, deviation {deviation} ns"
    );
}

#[test]
fn loss_reordering_and_lost_stamps_cost_samples_only() {
    let mut path = Path::new(2, 4);
    path.link = Link::rough(500);
    let mut world = path.build();
    for node in &mut world.nodes {
        node.lost_stamps_permille = 5;
    }
    world.run_for(120.0);
    let slave = path.slave();
    assert!(
        world.error_ns(slave, GRANDMASTER).abs() < 1_000,
        "{}",
        world.error_ns(slave, GRANDMASTER)
    );
    let mut drops = Drops::default();
    world
        .reports
        .iter()
        .for_each(|(_, _, report)| drops.record(report));
    assert!(drops.of(DropReason::LostStamp) > 0 && drops.of(DropReason::Unmatched) > 0);
    let share = offsets(&world, slave).len() as f64 / (117.0 * 8.0);
    assert!(share > 0.75, "{share} of the Syncs were used");
}

#[test]
fn end_to_end_through_transparent_clocks() {
    let mut path = Path::new(3, 3);
    path.profile = Profile {
        log_sync_interval: -3,
        log_delay_interval: -3,
        log_announce_interval: 0,
        ..Profile::DEFAULT
    };
    path.link = Link::new(20_000);
    let mut world = path.build();
    world.run_for(60.0);
    assert!(
        world.error_ns(path.slave(), GRANDMASTER).abs() < 200,
        "{}",
        world.error_ns(path.slave(), GRANDMASTER)
    );
}

#[test]
fn peer_delay_through_end_to_end_clocks_measures_the_whole_way() {
    let mut path = Path::new(8, 3);
    path.end_to_end_hops = true;
    path.link = Link::new(20_000);
    let mut world = path.build();
    world.run_for(60.0);
    let slave = path.slave();
    let peer = world.nodes[slave].as_ordinary().peer_delay().neighbour();
    let peer = peer.expect("the grandmaster answers through all of them");
    assert_eq!(peer.port.clock, world.identity(GRANDMASTER));
    // Four links of 20 µs each; residence times of up to 50 µs per hop are compensated.
    assert!(
        (peer.delay.as_ns_f64() - 80_000.0).abs() < 100.0,
        "{peer:?}"
    );
    let error_ns = world.error_ns(slave, GRANDMASTER);
    assert!(error_ns.abs() < 200, "{error_ns}");
}

#[test]
fn the_power_profiles_work_with_their_tags_tlvs_and_domain() {
    for (profile, inaccuracy_ns) in [
        (Profile::C37_238_2011, 3 * 50),
        (Profile::C37_238_2017, 250 + 3 * 50),
    ] {
        let mut path = Path::new(4, 3);
        path.profile = profile;
        let mut world = path.build();
        let slave = path.slave();
        let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let at_slave = seen.clone();
        world.attack(Box::new(move |flight| {
            if flight.to.0 == slave {
                at_slave.borrow_mut().push(flight.packet.clone());
            }
            vec![flight]
        }));
        world.run_for(40.0);
        assert!(
            world.error_ns(slave, GRANDMASTER).abs() < 200,
            "{}",
            profile.name
        );
        let seen = seen.borrow();
        assert!(
            seen.iter().all(|packet| packet.vlan == profile.vlan),
            "{}",
            profile.name
        );
        let sum = seen
            .iter()
            .rev()
            .find_map(|packet| total_inaccuracy(&packet.bytes));
        assert_eq!(sum, Some(inaccuracy_ns), "{}", profile.name);
    }
}

fn total_inaccuracy(bytes: &[u8]) -> Option<u32> {
    use timeloom_wire::tlv::{PowerProfile, PowerProfileVersion};
    let message = timeloom_wire::Message::parse(bytes).ok()?;
    let tlv = message
        .tlvs
        .iter()
        .find_map(|tlv| PowerProfile::parse(tlv.value)?.ok())?;
    Some(match tlv.version {
        PowerProfileVersion::V2011 { network_ns, .. } => network_ns,
        PowerProfileVersion::V2017 { total_ns } => total_ns,
    })
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed| {
        let mut path = Path::new(seed, 2);
        path.link = Link::rough(700);
        let mut world = path.build();
        world.run_for(20.0);
        world.reports
    };
    assert_eq!(history(7), history(7));
    assert_ne!(history(7), history(8));
}

#[test]
fn another_clock_takes_over_when_the_grandmaster_falls_silent() {
    use crate::world::clock::HardwareClock;
    use crate::world::keys::identity;
    use crate::world::node::Node;
    use timeloom_ptp::{OrdinaryConfig, TransparentConfig};

    let profile = Profile {
        log_sync_interval: -3,
        ..Profile::POWER_UTILITY
    };
    let mut world = crate::world::World::new(5);
    let now = world.local();
    // Three ordinary clocks around one switch; the clock with the lowest identity is the best.
    for node in 0..3 {
        let config = OrdinaryConfig::new(identity(node), profile);
        world.add(
            Node::ordinary(config, now),
            HardwareClock::new(1_700_000_000 * 1_000_000_000, node as f64 * 900.0),
        );
    }
    world.add(
        Node::transparent(TransparentConfig::new(identity(9), 3, profile), now),
        HardwareClock::new(0, 5_000.0),
    );
    for node in 0..3 {
        world.connect((node, 1), (3, node as u16 + 1), Link::new(300));
    }
    world.run_for(20.0);
    let states = |world: &crate::world::World| {
        (0..3)
            .map(|n| world.nodes[n].as_ordinary().state())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        states(&world),
        [PortState::Master, PortState::Slave, PortState::Slave]
    );
    assert!(world.error_ns(2, 0).abs() < 100);

    world.attack(Box::new(|flight| {
        if flight.from.0 == 0 {
            vec![]
        } else {
            vec![flight]
        }
    }));
    world.run_for(20.0);
    assert_eq!(states(&world)[1..], [PortState::Master, PortState::Slave]);
    assert!(world.error_ns(2, 1).abs() < 100);
    assert!(world.reports.iter().any(|(_, node, report)| *node == 2
        && matches!(report, ClockReport::State { state: PortState::Slave, grandmaster } if *grandmaster == Some(identity(1)))));
}

#[test]
fn a_clock_that_starts_in_1970_is_set_and_then_steered() {
    let path = Path::new(6, 2);
    let mut world = path.build();
    let slave = path.slave();
    world.clocks[slave].step(-1_699_999_000_000_000_000);
    world.run_for(30.0);
    let error_ns = world.error_ns(slave, GRANDMASTER);
    assert!(error_ns.abs() < 200, "{error_ns}");
}

#[test]
fn a_civil_clock_follows_a_master_that_tells_tai_37_s_behind() {
    for signed in [false, true] {
        let mut path = Path::new(31, 1);
        path.civil_slave = true;
        if signed {
            path = path.signed(
                timeloom_wire::tlv::Suite::Ed25519,
                timeloom_wire::tlv::EntryForm::Full,
            );
        }
        let mut world = path.build();
        world.run_for(30.0);
        let error_ns = world.error_ns(path.slave(), GRANDMASTER) + 37_000_000_000;
        assert!(error_ns.abs() < 1_000, "{error_ns} ns, signed: {signed}");
    }
}
