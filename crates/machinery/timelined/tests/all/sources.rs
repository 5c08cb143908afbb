//! Tests of every kind of source that needs nothing but this machine, with real daemons.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::common::{config, realtime_ns, wait_for, wait_for_status};
use timeloom_clock::quality::Status;
use timeloom_test_support::own_address;
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::foreign::clockbound::{ClockStatus, Seconds, SegmentV2, SegmentV3};
use timeloom_timeline::shm::{PageReader, now_ticks};
use timeloom_timelined::{Daemon, LocalClock, serve};

const TAI_NS: i64 = 37_000_000_000;

/// Timeline whose reference is the machine's clock with a stated error of a millisecond; its page
/// is a source of other timelines.
const REFERENCE: &str = r#"
    [[timeline]]
    name = "reference"
    tai_offset_s = 37
    poll = { shortest = "20 ms", longest = "50 ms" }
    [[timeline.source]]
    type = "system-clock"
    vouched_error = "1 ms"
"#;

fn reader(daemon: &Daemon) -> PageReader {
    PageReader::open(daemon.timelines().next().unwrap().page()).unwrap()
}

/// Waits for an interval, asserts that it contains this machine's time, and returns its width.
fn holds_truth(reader: &PageReader) -> i64 {
    wait_for_status(reader, Status::Ok);
    let mut width_ns = 0;
    for _ in 0..50 {
        let before_ns = realtime_ns() + TAI_NS;
        let interval = reader.read().unwrap().interval().unwrap();
        let after_ns = realtime_ns() + TAI_NS;
        assert!(
            interval.earliest().as_ns() <= after_ns,
            "{interval:?} {after_ns}"
        );
        assert!(
            interval.latest().as_ns() >= before_ns,
            "{interval:?} {before_ns}"
        );
        width_ns = interval.width().as_ns();
        std::thread::sleep(Duration::from_millis(1));
    }
    width_ns
}

fn last_refusal(daemon: &Daemon) -> Option<String> {
    let report = daemon.timelines().next().unwrap().report().unwrap();
    report.sources[0].last_refusal.clone()
}

#[test]
fn a_timeline_and_its_vmclock_are_sources_of_others() {
    let place = tempfile::tempdir().unwrap();
    let reference = serve(&config(place.path(), REFERENCE)).unwrap();
    holds_truth(&reader(&reference));
    let page = place.path().join("reference.page");
    let kinds: &[&str] = if LocalClock::of_this_machine().kind() == PageCounter::Tsc {
        &["timeline", "vmclock"]
    } else {
        &["timeline"]
    };
    for kind in kinds {
        let place = tempfile::tempdir().unwrap();
        let text = format!(
            "[[timeline]]\nname = \"second\"\ntai_offset_s = 37\n\
             poll = {{ shortest = \"20 ms\", longest = \"50 ms\" }}\n\
             [[timeline.source]]\ntype = \"{kind}\"\npath = \"{}\"\n",
            page.display()
        );
        let second = serve(&config(place.path(), &text)).unwrap();
        let width_ns = holds_truth(&reader(&second));
        assert!(
            width_ns >= 2_000_000,
            "narrower than what it comes from: {width_ns}"
        );
    }
    // Missing pages give no time, and do not disturb the daemon.
    let place = tempfile::tempdir().unwrap();
    let text = "[[timeline]]\nname = \"x\"\n[[timeline.source]]\ntype = \"vmclock\"\npath = \"/dev/null\"\n";
    let none = serve(&config(place.path(), text)).unwrap();
    wait_for("a refusal", || last_refusal(&none));
    assert_eq!(
        reader(&none).read().unwrap().status(),
        Status::NeverSynchronised
    );
}

#[test]
fn clockbound_segments_of_both_versions_are_read() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("shm");
    let monotonic = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    let v2 = |status, bound_ns| SegmentV2 {
        generation: 2,
        as_of: Seconds::from_ns(monotonic()),
        void_after: Seconds::from_ns(monotonic() + 1_000_000_000_000),
        bound_ns,
        disruption_marker: 0,
        max_drift_ppb: 1000,
        status,
        disruption_support: false,
    };
    let text = format!(
        "[[timeline]]\nname = \"aws\"\ntai_offset_s = 37\n\
         poll = {{ shortest = \"20 ms\", longest = \"50 ms\" }}\n\
         [[timeline.source]]\ntype = \"clockbound\"\npath = \"{}\"\n",
        path.display()
    );
    std::fs::write(&path, v2(ClockStatus::Unknown, 1).emit()).unwrap();
    let daemon = serve(&config(place.path(), &text)).unwrap();
    let refusal = wait_for("a refusal", || last_refusal(&daemon));
    assert!(refusal.contains("unknown"), "{refusal}");
    for hostile in [
        v2(ClockStatus::Synchronized, i64::MAX).emit(),
        v2(ClockStatus::Synchronized, -5).emit(),
    ] {
        std::fs::write(&path, hostile).unwrap();
        std::thread::sleep(Duration::from_millis(60));
    }
    std::fs::write(&path, v2(ClockStatus::Synchronized, 300_000).emit()).unwrap();
    let width_ns = wait_for("a narrow interval", || {
        let width_ns = reader(&daemon).read().unwrap().interval()?.width().as_ns();
        (width_ns < 10_000_000).then_some(width_ns)
    });
    assert!(width_ns >= 600_000, "{width_ns}");
    holds_truth(&reader(&daemon));
    drop(daemon);
    let clock = LocalClock::of_this_machine();
    if clock.kind() != PageCounter::Tsc {
        return;
    }
    // 2^-64 s per tick, by the calibrated rate.
    let period_s = clock.scale().rate.as_f64() / 1e9;
    let v3 = SegmentV3 {
        generation: 2,
        as_of_tsc: now_ticks(PageCounter::Tsc),
        as_of: Seconds::from_ns(realtime_ns()),
        void_after: Seconds::from_ns(realtime_ns() + 1_000_000_000_000),
        period_frac: (period_s * 2f64.powi(64)) as u64,
        // 100 ppm.
        period_err_frac: (1e-4 * 2f64.powi(64)) as u64,
        bound_ns: 1_000_000,
        disruption_marker: 0,
        max_drift_ppb: 15_000,
        status: ClockStatus::Synchronized,
        disruption_support: false,
        period_shift: 0,
        period_err_shift: 0,
    };
    std::fs::write(&path, v3.emit()).unwrap();
    let daemon = serve(&config(place.path(), &text)).unwrap();
    holds_truth(&reader(&daemon));
}

#[test]
fn peers_share_a_timeline_only_with_key_holders() {
    let places = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let address = own_address();
    let key = places[0].path().join("key");
    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let answering = REFERENCE.replace(
        "poll =",
        &format!(
            "listen = \"{address}\"\nkey_file = \"{}\"\npoll =",
            key.display()
        ),
    );
    let first = serve(&config(places[0].path(), &answering)).unwrap();
    holds_truth(&reader(&first));
    let asking = |extra: &str| {
        format!(
            "[[timeline]]\nname = \"reference\"\ndemand_authentication = true\n{extra}\n\
             poll = {{ shortest = \"20 ms\", longest = \"50 ms\" }}\n\
             [[timeline.source]]\ntype = \"peer\"\naddress = \"{address}\"\n"
        )
    };
    let with_key = asking(&format!("key_file = \"{}\"", key.display()));
    let second = serve(&config(places[1].path(), &with_key)).unwrap();
    let width_ns = holds_truth(&reader(&second));
    assert!(width_ns > 2_000_000, "{width_ns}");
    // Malformed packets are ignored, and do not stop the daemon.
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..120 {
        noise.send_to(&vec![0x54; length], address).unwrap();
    }
    holds_truth(&reader(&second));
    let third = serve(&config(places[2].path(), &asking(""))).unwrap();
    wait_for("a refusal", || last_refusal(&third));
    let status = reader(&third).read().unwrap().status();
    assert_eq!(
        status,
        Status::NeverSynchronised,
        "the answering side wants the key as well"
    );
}

#[test]
fn a_lying_source_among_three_is_outvoted_and_two_are_noticed() {
    let source = |lie: &str| {
        format!(
            "[[timeline.source]]\ntype = \"simulated\"\noffset = \"100 h\"\nrate_ppb = 20000\n\
             delay_up = \"300 us\"\ndelay_down = \"50 us\"\njitter = \"100 us\"\nloss = 0.1\n\
             stated_error = \"10 us\"\n{lie}\n"
        )
    };
    let timeline = |lies: [&str; 3]| {
        let sources: String = lies.iter().map(|lie| source(lie)).collect();
        format!(
            "[[timeline]]\nname = \"voted\"\nscale = \"local\"\n\
             poll = {{ shortest = \"10 ms\", longest = \"20 ms\" }}\n{sources}"
        )
    };
    let place = tempfile::tempdir().unwrap();
    let outvoted = serve(&config(
        place.path(),
        &timeline(["", "lie = \"50 ms\"", "seed = 5"]),
    ))
    .unwrap();
    let page = reader(&outvoted);
    wait_for("all three", || {
        let report = outvoted.timelines().next().unwrap().report().unwrap();
        report
            .sources
            .iter()
            .all(|source| source.answered > 3)
            .then_some(())
    });
    wait_for("a narrow interval", || {
        let interval = page.read().unwrap().interval()?;
        (interval.width().as_ns() < 2_000_000).then_some(())
    });
    drop(outvoted);
    let place = tempfile::tempdir().unwrap();
    let lies = ["", "lie = \"50 ms\"", "lie = \"-70 ms\""];
    let noticed = serve(&config(place.path(), &timeline(lies))).unwrap();
    wait_for("the contradiction", || {
        let report = noticed.timelines().next().unwrap().report().unwrap();
        (report.disturbances > 0).then_some(())
    });
}
