//! Tests of signed time on real virtual cables, from key files to evidence.

use std::process::Command;

use crate::support::{Scratch, lab};
use timeloom_ptp::security::VerificationPolicy;
use timeloom_ptp_io::lab::{LabAttack, LabAuth, LabNodeKind, LabOptions, LabReport, PEACE};
use timeloom_ptp_io::{HopVerdict, SyncLine, SyncReport, SyncVerdict, TimeInterval};
use timeloom_wire::tlv::{EntryForm, Suite};

use LabNodeKind::{Ours, Ptp4l};

fn inline(suite: Suite, form: EntryForm) -> impl FnOnce(&mut LabOptions) {
    move |options| {
        options.auth = Some(LabAuth {
            suite,
            form,
            secondary: false,
        })
    }
}

/// Checks that every Sync after the first accepted one is accepted, with an entry of each hop.
/// Earlier Syncs may be rejected, because clocks do not know their neighbours yet.
fn assert_accepted(report: &LabReport, hops: usize) {
    let told = || format!("{:?} {:?}", report.counters, report.violations());
    assert!(report.count(SyncVerdict::Accepted) >= 10, "{}", told());
    let since = report
        .syncs()
        .skip_while(|sync| sync.report.record.verdict != SyncVerdict::Accepted);
    let since: Vec<_> = since
        .filter(|sync| sync.report.record.verdict != SyncVerdict::Incomplete)
        .collect();
    let first = since[0].report.record.sequence;
    let late = since.iter().filter(|sync| {
        sync.report.record.sequence >= first && sync.report.record.verdict != SyncVerdict::Accepted
    });
    assert_eq!(late.count(), 0, "{}", told());
    assert_eq!(report.count(SyncVerdict::Unsigned), 0, "{}", told());
    assert_eq!(report.alarms().count(), 0, "{}", told());
    for sync in report
        .syncs()
        .filter(|sync| sync.report.record.verdict == SyncVerdict::Accepted)
    {
        let hops_of = |sync: &SyncLine| sync.report.hops.clone().into_iter();
        let expected: Vec<String> = (1..=hops).map(|hop| format!("tc{hop}")).collect();
        assert_eq!(sync.hop_names(), expected, "{sync:?}");
        assert!(
            hops_of(sync).all(|hop| hop.verdict == HopVerdict::Holds),
            "{sync:?}"
        );
        let sum: TimeInterval = hops_of(sync).map(|hop| hop.contribution).sum();
        let rest = sync.report.record.correction.unwrap() - sum;
        // The rest is a fraction of a nanosecond, which the grandmaster itself contributes.
        assert!(rest.0.abs() < 1 << 16, "{sync:?}");
        assert!(sync.report.failures.is_empty(), "{sync:?}");
    }
    let offsets = report.offsets().expect("there are accepted Syncs");
    assert!(offsets.median_ns.abs() < 50_000.0, "{offsets:?}");
}

#[test]
fn an_ed25519_chain_of_three_hops_and_its_capture() {
    let scratch = Scratch::new("ed25519");
    let report = lab(
        &scratch,
        &[Ours; 5],
        inline(Suite::Ed25519, EntryForm::Full),
    );
    assert_accepted(&report, 3);
    assert_dissects(&report);
}

#[test]
fn a_compact_bls_chain_of_three_hops() {
    let scratch = Scratch::new("bls");
    assert_accepted(
        &lab(&scratch, &[Ours; 5], inline(Suite::Bls, EntryForm::Compact)),
        3,
    );
}

#[test]
fn prepared_bls_chains_of_three_hops_whose_ledgers_grow() {
    for (name, form) in [
        ("once", EntryForm::Full),
        ("once-compact", EntryForm::Compact),
    ] {
        let scratch = Scratch::new(name);
        assert_accepted(&lab(&scratch, &[Ours; 5], inline(Suite::BlsOnce, form)), 3);
        for node in ["gm", "tc1", "tc2", "tc3"] {
            let path = scratch.0.join("keys").join(node).join("once.1.ledger");
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.matches("[[reserved]]").count(), 1, "{node}: {text}");
        }
        let path = scratch.0.join("keys/slave/once.1.ledger");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains("[[reserved]]"), "a slave signs no Follow_Up");
    }
}

#[test]
fn statements_on_a_second_network() {
    let scratch = Scratch::new("secondary");
    let report = lab(&scratch, &[Ours; 4], |options| {
        options.auth = Some(LabAuth {
            suite: Suite::Ed25519,
            form: EntryForm::Full,
            secondary: true,
        });
    });
    assert_accepted(&report, 2);
}

/// Limit of the correction that unsigned clocks may add in total.
const BUDGET: TimeInterval = TimeInterval::from_ns(100_000_000);

/// Configures a policy under which the grandmaster permits unsigned clocks and the slave limits
/// their corrections.
fn mixed(options: &mut LabOptions) {
    inline(Suite::Ed25519, EntryForm::Full)(options);
    options.policy = VerificationPolicy::Mixed { budget: BUDGET };
}

#[test]
fn signed_time_passes_a_ptp4l_transparent_clock_unharmed() {
    let scratch = Scratch::new("through-ptp4l");
    let report = lab(&scratch, &[Ours, Ours, Ptp4l, Ours], mixed);
    assert_accepted_through(&report);
}

/// Returns the part of the correction that no clock has signed.
fn unsigned_part(sync: &SyncReport) -> TimeInterval {
    let signed = sync.hops.iter().map(|hop| hop.contribution);
    let correction = sync.record.correction.unwrap_or_default();
    signed.fold(correction, |rest, part| rest - part)
}

fn assert_accepted_through(report: &LabReport) {
    assert!(
        report.count(SyncVerdict::Accepted) >= 10,
        "{:?} {:?}",
        report.counters,
        report.lines
    );
    // On a busy machine ptp4l may hold a Sync for too long.
    let mut syncs = report.syncs().map(|sync| &sync.report);
    let unduly = syncs
        .find(|sync| sync.record.verdict == SyncVerdict::Rejected && unsigned_part(sync) <= BUDGET);
    assert_eq!(unduly, None, "{:?}", report.lines);
    let offsets = report.offsets().expect("there are accepted Syncs");
    assert!(offsets.median_ns.abs() < 50_000.0, "{offsets:?}");
}

#[test]
fn signed_time_is_good_time_for_a_ptp4l_slave() {
    let scratch = Scratch::new("to-ptp4l");
    let report = lab(&scratch, &[Ours, Ours, Ptp4l], mixed);
    let offsets = report
        .offsets()
        .unwrap_or_else(|| panic!("{:?} {:?}", report.logs, report.counters));
    assert!(
        offsets.count >= 2 && offsets.median_ns.abs() < 50_000.0,
        "{offsets:?}"
    );
    let log = &report.logs["slave"];
    assert!(
        !log.contains("bad message") && !log.contains("FAULTY"),
        "{log}"
    );
}

#[test]
fn a_monitor_reports_syncs_that_a_strict_slave_refuses_and_continues() {
    let scratch = Scratch::new("monitor");
    let report = lab(&scratch, &[Ours; 3], |options| {
        inline(Suite::Ed25519, EntryForm::Full)(options);
        options.policy = VerificationPolicy::Monitor;
        options.attack = Some((LabAttack::Strip, 1));
        options.enough = Some(12);
    });
    let unsigned: Vec<_> = report
        .syncs()
        .filter(|sync| sync.report.record.verdict == SyncVerdict::Unsigned)
        .collect();
    assert!(unsigned.len() >= 5, "{:?}", report.violations());
    for sync in unsigned {
        assert!(
            sync.violations()
                .iter()
                .any(|violation| violation.reason == "unsigned"),
            "{sync:?}"
        );
    }
    assert!(
        report.count(SyncVerdict::Accepted) >= PEACE,
        "there was peace before"
    );
}

/// Checks that tshark decodes every frame of the capture as PTP and finds none malformed.
fn assert_dissects(report: &LabReport) {
    let fields = [
        "frame.number",
        "ptp.v2.messagetype",
        "_ws.malformed",
        "_ws.expert.severity",
    ];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&report.capture).args(["-T", "fields"]);
    fields.iter().for_each(|field| {
        tshark.args(["-e", field]);
    });
    let output = tshark.output().expect("tshark is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let mut types = std::collections::BTreeSet::new();
    for line in text.lines() {
        let mut cells = line.split('\t').skip(1);
        let kind = cells.next().filter(|kind| !kind.is_empty());
        types.insert(kind.unwrap_or_else(|| panic!("not PTP: {line}")).to_owned());
        assert!(cells.all(str::is_empty), "malformed or suspicious: {line}");
    }
    // The types are Sync, Follow_Up, Announce, and the three messages of the peer-delay mechanism.
    assert_eq!(types.len(), 6, "{types:?}");
}
