//! Tests of Timeloom's clocks and ptp4l (Debian's linuxptp) at the two ends of real virtual cables.
//!
//! All namespaces share one clock, so the true offset is zero. The limits are wide: they detect a
//! wrong sign, a missing correction or a lost second, but not a busy machine.

use crate::support::{Scratch, lab};
use timeloom_ptp::DelayMechanism;
use timeloom_ptp_io::Transport;
use timeloom_ptp_io::lab::{LabNodeKind, LabOptions, LabReport};

use LabNodeKind::{Ours, Ptp4l};

/// Asserts that the median of several offsets is within 50 µs of zero, and that the path delay is
/// plausible.
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

/// Returns true if `node` forwarded Syncs and lost none.
fn residences(report: &LabReport, node: &str) -> bool {
    let counters = &report.counters[node];
    counters.sent > 20 && counters.send_errors == 0 && counters.clock_steps == 0
}
