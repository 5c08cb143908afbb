//! Tests of a transparent clock with three ports, and of the power profile's VLAN tag.

use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::{Duration, Instant};

use crate::support::{Scratch, lab};
use timeloom_fabric::{MacAddress, Namespace, Plug, connect};
use timeloom_ptp::Profile;
use timeloom_ptp_io::lab::NodeKind::Ours;
use timeloom_ptp_io::{
    Evidence, EvidenceLine, Names, Program, ProgramOptions, PtpError, Role, Stamping, TimeInterval,
    Wake,
};

fn fast(profile: Profile) -> Profile {
    Profile {
        log_sync_interval: -3,
        log_delay_interval: -2,
        log_announce_interval: -2,
        ..profile
    }
}

#[test]
fn one_grandmaster_two_slaves_three_ports() {
    let names = ["gm", "left", "right"];
    let clock = Namespace::quiet("tc").expect("run this test as root");
    let others = names.map(|name| Namespace::quiet(name).unwrap());
    for (at, other) in others.iter().enumerate() {
        let mac = |side| MacAddress([2, 0, 0, 0, side, at as u8 + 1]);
        let far = Plug {
            namespace: other,
            interface: "eth0",
            mac: mac(1),
            address: None,
        };
        connect(
            &Plug {
                namespace: &clock,
                interface: names[at],
                mac: mac(2),
                address: None,
            },
            &far,
        )
        .unwrap();
    }
    let (sender, lines) = channel();
    let mut running = Vec::new();
    let mut start = |name: &str, space: &Namespace, role, interfaces: &[&str]| {
        let mut options = ProgramOptions::new(
            role,
            interfaces.iter().map(|name| (*name).to_owned()).collect(),
        );
        options.profile = fast(Profile::DEFAULT_PEER_TO_PEER);
        let (wake, sender) = (Wake::new().unwrap(), sender.clone());
        let sink = Box::new(move |line| drop(sender.send(line)));
        let evidence = Evidence::new(name, Names::default(), sink);
        let told = wake.clone();
        let program = space
            .run(move || Program::open(options, told, Box::new(evidence)))
            .unwrap()
            .unwrap();
        running.push((wake, spawn(move || program.run())));
    };
    start("tc", &clock, Role::Transparent, &names);
    start("gm", &others[0], Role::Grandmaster, &["eth0"]);
    start("left", &others[1], Role::Slave, &["eth0"]);
    start("right", &others[2], Role::Slave, &["eth0"]);
    let (mut left, mut right, mut egresses) = (Vec::new(), Vec::new(), Vec::new());
    let end = Instant::now() + Duration::from_secs(120);
    while (left.len() < 8 || right.len() < 8) && Instant::now() < end {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(EvidenceLine::Sync(sync)) => {
                let of = if &*sync.node == "left" {
                    &mut left
                } else {
                    &mut right
                };
                of.extend(sync.report.record.offset.map(|offset| offset.as_ns_f64()));
            }
            Ok(EvidenceLine::Relay {
                ingress,
                egress,
                residence,
                ..
            }) => {
                assert!(residence > TimeInterval::ZERO && ingress == 1);
                egresses.push(egress);
            }
            _ => {}
        }
    }
    running.iter().for_each(|(wake, _)| wake.stop());
    running
        .into_iter()
        .for_each(|(_, thread)| drop(thread.join().unwrap().unwrap()));
    for offsets in [&mut left, &mut right] {
        offsets.sort_by(f64::total_cmp);
        assert!(offsets.len() >= 8, "{offsets:?}");
        assert!(offsets[offsets.len() / 2].abs() < 50_000.0, "{offsets:?}");
    }
    assert!(
        egresses.contains(&2) && egresses.contains(&3) && !egresses.contains(&1),
        "{egresses:?}"
    );
}

#[test]
fn the_power_profiles_tag_passes_two_hops() {
    let scratch = Scratch::new("power");
    let report = lab(&scratch, &[Ours; 4], |options| {
        options.profile = fast(Profile::C37_238_2011)
    });
    let offsets = report
        .offsets()
        .unwrap_or_else(|| panic!("{:?}", report.counters));
    assert!(offsets.median_ns.abs() < 50_000.0, "{offsets:?}");
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&report.capture).args([
        "-T",
        "fields",
        "-e",
        "vlan.priority",
        "-e",
        "vlan.id",
    ]);
    let output = tshark.output().expect("tshark is installed");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.lines().count() > 20 && text.lines().all(|line| line == "4\t0"),
        "{text}"
    );
}

#[test]
fn a_card_without_a_clock_is_said_and_not_worked_around() {
    let space = Namespace::quiet("card").expect("run this test as root");
    let plug = |interface, last| Plug {
        namespace: &space,
        interface,
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        address: None,
    };
    connect(&plug("a", 1), &plug("b", 2)).unwrap();
    let mut options = ProgramOptions::new(Role::Slave, vec!["a".to_owned()]);
    options.stamping = Stamping::Hardware;
    let wake = Wake::new().unwrap();
    let opened = space
        .run(move || Program::open(options, wake, Box::new(())).map(drop))
        .unwrap();
    assert!(
        matches!(&opened, Err(PtpError::Unsupported(text)) if text.contains("no clock of its own")),
        "{opened:?}"
    );
}
