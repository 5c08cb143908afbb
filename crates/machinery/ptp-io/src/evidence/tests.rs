//! Tests of the log line about a Sync.

use std::sync::mpsc::channel;

use timeloom_ptp::{HopRecord, HopVerdict, Stamp, SyncReport};
use timeloom_wire::tlv::Signer;
use timeloom_wire::{SyncRecord, SyncVerdict, TimeInterval, Timestamp};

use super::*;

fn report_of_a_sync() -> SyncReport {
    let hop = ClockIdentity([2; 8]);
    SyncReport {
        source: PortIdentity {
            clock: ClockIdentity([1; 8]),
            port: 1,
        },
        record: SyncRecord {
            sequence: 3,
            arrival: Some(Stamp::from_ns(1_000_000_500)),
            origin: Some(Timestamp::from_ns(1_000_000_000)),
            correction: Some(TimeInterval((300 << 16) + (1 << 15))),
            path_delay: Some(TimeInterval::from_ns(100)),
            offset: Some(TimeInterval::from_ns(-7)),
            verdict: SyncVerdict::Rejected,
        },
        hops: vec![HopRecord {
            signer: Signer::Identity(hop),
            clock: Some(hop),
            ingress: 1,
            egress: 2,
            contribution: TimeInterval(1),
            verdict: HopVerdict::Holds,
        }],
        failures: vec![(
            Reason::Delayed,
            Suspect {
                after: None,
                before: hop,
            },
        )],
    }
}

fn told(reports: &[Report]) -> Vec<EvidenceLine> {
    let (told, lines) = channel();
    let sink = Box::new(move |line| {
        let _ = told.send(line);
    });
    let names = [(ClockIdentity([1; 8]), "gm"), (ClockIdentity([2; 8]), "tc")];
    let names = Names(names.map(|(of, name)| (of, name.to_owned())).into());
    let mut evidence = Evidence::new("slave", names, sink);
    reports.iter().for_each(|report| evidence.report(report));
    drop(evidence);
    lines.iter().collect()
}

#[test]
fn a_record_is_a_line_to_the_last_bit() {
    let lines = told(&[Report::Sync(Box::new(report_of_a_sync()))]);
    let [EvidenceLine::Sync(sync)] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!(sync.report, report_of_a_sync());
    let t_ns = sync.t_ns;
    assert_eq!(
        serde_json::to_string(&lines[0]).unwrap(),
        format!(
            r#"{{"type":"sync","t_ns":{t_ns},"node":"slave","source":"gm-1","sequence":3,"arrival_ns":1000000500,"origin_ns":1000000000,"correction_ns":300.5,"hops":[{{"clock":"tc","ingress":1,"egress":2,"contribution_ns":0.0000152587890625,"verdict":"holds"}}],"offset_ns":-7.0,"path_delay_ns":100.0,"verdict":"rejected","failures":[{{"reason":"delayed","after":null,"before":"tc"}}]}}"#
        )
    );
    assert_eq!(
        lines[0].to_string(),
        "gm-1 #3 rejected: offset -7 ns, delay 100 ns, 1 hops; delayed upstream of tc"
    );
}

#[test]
fn a_violation_is_told_once() {
    let failure = Failure {
        observer: ClockIdentity([3; 8]),
        source: report_of_a_sync().source,
        sequence: 3,
        reason: Reason::Announce,
        suspect: report_of_a_sync().failures[0].1,
    };
    let report = |in_record| Report::Failure { failure, in_record };
    let lines = told(&[report(true), report(false)]);
    assert!(matches!(&lines[..], [EvidenceLine::Alarm(_)]), "{lines:?}");
}

/// Returns a Sync's line. The test of the feed uses it too.
pub(crate) fn line_of_a_sync() -> EvidenceLine {
    let of = report_of_a_sync();
    let sync = SyncReport {
        hops: Vec::new(),
        failures: Vec::new(),
        record: SyncRecord {
            verdict: SyncVerdict::Accepted,
            sequence: 7,
            offset: Some(TimeInterval((99 << 16) + (1 << 15))),
            ..of.record
        },
        ..of
    };
    told(&[Report::Sync(Box::new(sync))]).remove(0)
}
