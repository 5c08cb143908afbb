//! Tests of the standard's AUTHENTICATION TLV with a group's key, between Timeloom's programs, and
//! with linuxptp 4.3 or later (`scripts/exclusions`). TIMELOOM_PTP4L_AUTH is the path of that
//! ptp4l; if it is not set, the version of the one in PATH is checked.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Scratch, lab};
use timeloom_ptp_io::DelayMechanism;
use timeloom_ptp_io::keys::GroupFile;
use timeloom_ptp_io::lab::LabNodeKind::{self, Ours, Ptp4l};
use timeloom_ptp_io::lab::LabReport;

fn association() -> GroupFile {
    GroupFile {
        policy: 3,
        key_id: 7,
        key: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".to_owned(),
    }
}

/// Returns the path of a ptp4l that supports the TLV, if there is one.
fn ptp4l() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("TIMELOOM_PTP4L_AUTH") {
        return Some(path.into());
    }
    let output = Command::new("ptp4l").arg("-v").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.trim().split(['.', '-']);
    let version: (u32, u32) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    (version >= (4, 3)).then(|| "ptp4l".into())
}

fn chain(name: &str, nodes: &[LabNodeKind], delay: DelayMechanism) -> LabReport {
    let scratch = Scratch::new(name);
    lab(&scratch, nodes, |options| {
        options.group = Some(association());
        options.profile.delay = delay;
        if let Some(path) = ptp4l() {
            options.ptp4l = path;
        }
    })
}

fn assert_synchronous(report: &LabReport) {
    let told = || format!("{:?} {:?}", report.counters, report.logs);
    let offsets = report.offsets().unwrap_or_else(|| panic!("{}", told()));
    assert!(offsets.median_ns.abs() < 50_000.0, "{offsets:?} {}", told());
    for (node, counters) in &report.counters {
        assert!(counters.received > 0, "{}", told());
        let refused = counters.dropped.keys().find(|why| why.starts_with("group"));
        assert!(refused.is_none(), "{node}: {}", told());
    }
}

#[test]
fn our_clocks_with_a_groups_key() {
    for delay in [DelayMechanism::PeerToPeer, DelayMechanism::EndToEnd] {
        let name = format!("group-{delay:?}");
        assert_synchronous(&chain(&name, &[Ours; 3], delay));
    }
}

#[test]
fn linuxptp_and_ours_with_a_groups_key() {
    assert!(
        ptp4l().is_some(),
        "no ptp4l of version 4.3 or later (TIMELOOM_PTP4L_AUTH); `scripts/exclusions` excludes this test"
    );
    for (name, nodes) in [
        ("group-to-ptp4l", &[Ours, Ptp4l][..]),
        ("group-from-ptp4l", &[Ptp4l, Ours]),
        ("group-through-ptp4l", &[Ours, Ptp4l, Ours]),
        ("group-through-ours", &[Ptp4l, Ours, Ptp4l]),
    ] {
        for delay in [DelayMechanism::PeerToPeer, DelayMechanism::EndToEnd] {
            let report = chain(&format!("{name}-{delay:?}"), nodes, delay);
            println!("{name} {delay:?}: {:?}", report.offsets());
            assert_synchronous(&report);
        }
    }
}

#[test]
fn messages_without_the_code_of_the_group_are_not_used() {
    let scratch = Scratch::new("group-stranger");
    let report = lab(&scratch, &[Ours; 3], |options| {
        options.group = Some(association());
        // The transparent clock in the middle has another key.
        options.group_stranger = Some(1);
        options.duration = timeloom_time::Duration::from_s(4);
    });
    assert!(report.offsets().is_none(), "{:?}", report.offsets());
    for node in ["gm", "tc1", "slave"] {
        let dropped = &report.counters[node].dropped;
        assert!(
            dropped.get("group: the code is not the message's").copied() > Some(2),
            "{node}: {dropped:?}"
        );
    }
}
