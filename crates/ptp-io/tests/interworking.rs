//! Our clocks and ptp4l (Debian's linuxptp) on both ends of real cables.
//!
//! All namespaces share one clock, so the true offset is zero. Bounds are wide:
//! they tell a wrong sign, a missing correction or a lost second from noise,
//! not a good machine from a busy one.

use std::path::PathBuf;

use timeloom_ptp::DelayMechanism;
use timeloom_ptp_io::lab::{LabOptions, LabReport, NodeKind, run};
use timeloom_ptp_io::{Transport, Wake};
use timeloom_time::Duration;

use NodeKind::{Ours, Ptp4l};

/// A directory that vanishes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!(
            "timeloom-interworking-{}-{name}",
            std::process::id()
        ));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lab(scratch: &Scratch, nodes: &[NodeKind], change: impl FnOnce(&mut LabOptions)) -> LabReport {
    let mut options = LabOptions::new(nodes.to_vec(), scratch.0.clone());
    // A busy machine gets its time; an idle one does not waste it.
    options.duration = Duration::from_s(40);
    options.enough = Some(if nodes.last() == Some(&Ptp4l) { 2 } else { 12 });
    change(&mut options);
    run(&options, &Wake::new().unwrap())
        .unwrap_or_else(|error| panic!("{error}; needs root and ptp4l"))
}

/// Median within 50 µs of the truth and a sound path delay, from several Syncs.
fn assert_synchronous(report: &LabReport) {
    let told = || {
        format!(
            "{:?} {:?} {:?}",
            report.offsets(),
            report.counters,
            report.logs
        )
    };
    let offsets = report
        .offsets()
        .unwrap_or_else(|| panic!("nothing was measured: {}", told()));
    assert!(offsets.count >= 2, "{}", told());
    assert!(offsets.median_ns.abs() < 50_000.0, "{}", told());
    let delays = report.delays().expect("there are offsets");
    assert!(
        (-5_000.0..1_000_000.0).contains(&delays.median_ns),
        "{delays:?} {}",
        told()
    );
}

fn udp(options: &mut LabOptions) {
    options.transport = Transport::Udp4;
    options.profile.delay = DelayMechanism::EndToEnd;
}

#[test]
fn ptp4l_follows_our_grandmaster() {
    let scratch = Scratch::new("gm-l2");
    assert_synchronous(&lab(&scratch, &[Ours, Ptp4l], |_| {}));
}

#[test]
fn ptp4l_follows_our_grandmaster_over_udp_end_to_end() {
    let scratch = Scratch::new("gm-udp");
    assert_synchronous(&lab(&scratch, &[Ours, Ptp4l], udp));
}

#[test]
fn our_slave_follows_ptp4l() {
    let scratch = Scratch::new("slave-l2");
    assert_synchronous(&lab(&scratch, &[Ptp4l, Ours], |_| {}));
}

#[test]
fn our_slave_follows_ptp4l_over_udp_end_to_end() {
    let scratch = Scratch::new("slave-udp");
    assert_synchronous(&lab(&scratch, &[Ptp4l, Ours], udp));
}

#[test]
fn our_transparent_clock_stands_between_two_ptp4l() {
    let scratch = Scratch::new("tc-between");
    let report = lab(&scratch, &[Ptp4l, Ours, Ptp4l], |_| {});
    assert_synchronous(&report);
    assert!(residences(&report, "tc1"));
}

#[test]
fn our_transparent_clock_stands_between_two_ptp4l_end_to_end_over_udp() {
    let scratch = Scratch::new("tc-between-udp");
    assert_synchronous(&lab(&scratch, &[Ptp4l, Ours, Ptp4l], udp));
}

#[test]
fn ptp4l_as_a_transparent_clock_stands_between_ours() {
    let scratch = Scratch::new("tc-ptp4l");
    assert_synchronous(&lab(&scratch, &[Ours, Ptp4l, Ours], |_| {}));
}

#[test]
fn five_transparent_clocks_of_both_kinds() {
    let scratch = Scratch::new("chain");
    assert_synchronous(&lab(
        &scratch,
        &[Ours, Ours, Ptp4l, Ours, Ptp4l, Ours, Ours],
        |_| {},
    ));
}

/// Whether `node` handed on Syncs and lost none.
fn residences(report: &LabReport, node: &str) -> bool {
    let counters = &report.counters[node];
    counters.sent > 20 && counters.send_errors == 0 && counters.clock_steps == 0
}
