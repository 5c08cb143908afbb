//! Outputs of a daemon in other formats, read as their readers do.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use crate::common::{config, realtime_ns, wait_for};
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::foreign::chrony_sock::SockSample;
use timeloom_timeline::shm::foreign::clockbound::{ClockStatus, Seconds, SegmentV2, SegmentV3};
use timeloom_timeline::shm::foreign::ntp_shm::ShmTime;
use timeloom_timeline::shm::{NtpShm, now_ticks};
use timeloom_timelined::{LocalClock, serve};

/// Unit of NTP shared memory that no other test uses; it is removed when the test ends.
struct Unit(u16);

impl Unit {
    fn new(index: u16) -> Self {
        Self(20_000 + 2 * (std::process::id() % 20_000) as u16 + index)
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let _ = NtpShm::open(self.0).and_then(NtpShm::remove);
    }
}

/// Returns the configuration of a timeline with this source and these outputs, and short poll
/// intervals.
fn timeline(name: &str, source: &str, outputs: &str) -> String {
    format!(
        "[[timeline]]\nname = \"{name}\"\ntai_offset_s = 37\n\
         poll = {{ shortest = \"20 ms\", longest = \"50 ms\" }}\n{outputs}\n\
         [[timeline.source]]\n{source}\n"
    )
}

const OWN: &str = "type = \"system-clock\"\nvouched_error = \"0 ns\"";
const MUTE: &str = "type = \"vmclock\"\npath = \"/dev/null\"";

fn v2(path: &Path) -> Option<SegmentV2> {
    SegmentV2::parse(&std::fs::read(path).unwrap()).ok()
}

fn v3(path: &Path) -> Option<SegmentV3> {
    SegmentV3::parse(&std::fs::read(path).unwrap()).ok()
}

fn ns(time: Seconds) -> i64 {
    time.s * 1_000_000_000 + time.ns
}

fn shm_ns(time: ShmTime) -> i64 {
    time.s * 1_000_000_000 + i64::from(time.ns)
}

#[test]
fn all_outputs_agree_with_the_timeline_and_are_silent_after_its_end() {
    let place = tempfile::tempdir().unwrap();
    let (segment, sock) = (place.path().join("shm0"), place.path().join("chrony"));
    let chronyd = UnixDatagram::bind(&sock).unwrap();
    chronyd
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let unit = Unit::new(0);
    let outputs = format!(
        "clockbound = \"{}\"\nclockbound_version = 2\nchrony_sock = \"{}\"\nntp_shm = {}",
        segment.display(),
        sock.display(),
        unit.0
    );
    let text = timeline("all", OWN, &outputs);
    let daemon = serve(&config(place.path(), &text)).unwrap();
    let found = wait_for("a synchronised segment", || {
        v2(&segment).filter(|found| {
            found.status == ClockStatus::Synchronized && (1..10_000_000).contains(&found.bound_ns)
        })
    });
    assert!(ns(found.void_after) > ns(found.as_of));
    assert!(found.max_drift_ppb >= 500_000, "{found:?}");
    let mut datagram = [0; 64];
    let length = chronyd.recv(&mut datagram).unwrap();
    let sample = SockSample::parse(&datagram[..length]).unwrap();
    assert!(sample.offset_s.abs() < 0.5, "{sample:?}");
    assert!((sample.tv_s - realtime_ns() / 1_000_000_000).abs() < 60);
    let shm = NtpShm::open(unit.0).unwrap();
    let taken = wait_for("a sample", || {
        let sample = shm.read().ok().filter(|sample| sample.valid)?;
        let off_ns = shm_ns(sample.clock) - shm_ns(sample.receive);
        (off_ns.abs() < 10_000_000).then_some(sample)
    });
    assert!((shm_ns(taken.receive) - realtime_ns()).abs() < 60_000_000_000);
    wait_for("the next sample", || {
        let next = shm.read().ok()?;
        (next.valid && next.count != taken.count).then_some(())
    });
    drop(daemon);
    let found = v2(&segment).unwrap();
    assert_eq!(found.status, ClockStatus::Unknown);
    assert_eq!(ns(found.void_after), 0);
    assert!(!shm.read().unwrap().valid);
}

#[test]
fn version_3_holds_true_time_and_an_offset_has_its_sign() {
    let place = tempfile::tempdir().unwrap();
    let (segment, sock) = (place.path().join("shm1"), place.path().join("chrony"));
    let chronyd = UnixDatagram::bind(&sock).unwrap();
    chronyd
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let unit = Unit::new(1);
    let clock = LocalClock::of_this_machine();
    // True time is 100,000 s ahead of the system clock, and TAI 37 s ahead of that.
    let offset_ns = realtime_ns() - clock.core().as_ns() + 100_037_000_000_000;
    let source = format!(
        "type = \"simulated\"\noffset = \"{offset_ns} ns\"\ndelay_up = \"1 us\"\ndelay_down = \"1 us\""
    );
    let is_tsc = clock.kind() == PageCounter::Tsc;
    let version = if is_tsc { 3 } else { 2 };
    let outputs = format!(
        "clockbound = \"{}\"\nclockbound_version = {version}\nchrony_sock = \"{}\"\nntp_shm = {}",
        segment.display(),
        sock.display(),
        unit.0
    );
    let text = timeline("ahead", &source, &outputs);
    let _daemon = serve(&config(place.path(), &text)).unwrap();
    let mut datagram = [0; 64];
    let length = chronyd.recv(&mut datagram).unwrap();
    let offset_s = SockSample::parse(&datagram[..length]).unwrap().offset_s;
    // The daemon calibrates its counter anew. For a counter that has run for months, this makes a
    // difference of minutes.
    assert!((offset_s - 100_000.0).abs() < 50_000.0, "{offset_s}");
    let shm = NtpShm::open(unit.0).unwrap();
    let ahead_ns = wait_for("a sample", || {
        let sample = shm.read().ok().filter(|sample| sample.valid)?;
        Some(shm_ns(sample.clock) - shm_ns(sample.receive))
    });
    assert!((ahead_ns as f64 / 1e9 - offset_s).abs() < 2.0, "{ahead_ns}");
    if !is_tsc {
        return;
    }
    let found = wait_for("a synchronised segment", || {
        v3(&segment).filter(|found| found.status == ClockStatus::Synchronized)
    });
    let system_ns = realtime_ns();
    let delta = u128::from(now_ticks(PageCounter::Tsc).saturating_sub(found.as_of_tsc));
    let frac = (delta * u128::from(found.period_frac)) >> found.period_shift;
    let moved_ns = (frac as f64 / 2f64.powi(64) * 1e9) as i64;
    let ahead_s = (ns(found.as_of) + moved_ns - system_ns) as f64 / 1e9;
    assert!((ahead_s - offset_s).abs() < 2.0, "{ahead_s} {offset_s}");
}

#[test]
fn an_unsynchronised_timeline_claims_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (segment, sock) = (place.path().join("shm0"), place.path().join("chrony"));
    let chronyd = UnixDatagram::bind(&sock).unwrap();
    chronyd.set_nonblocking(true).unwrap();
    let unit = Unit(60_000 + (std::process::id() % 5000) as u16);
    let outputs = format!(
        "clockbound = \"{}\"\nclockbound_version = 2\nchrony_sock = \"{}\"\nntp_shm = {}\nalive_for = \"100 ms\"",
        segment.display(),
        sock.display(),
        unit.0
    );
    let text = timeline("mute", MUTE, &outputs);
    let daemon = serve(&config(place.path(), &text)).unwrap();
    wait_for("some refused answers", || {
        let report = daemon.timelines().next()?.report()?;
        (report.sources[0].refused > 5).then_some(())
    });
    assert_eq!(v2(&segment).unwrap().status, ClockStatus::Unknown);
    assert!(chronyd.recv(&mut [0; 64]).is_err());
    let shm = NtpShm::open(unit.0).unwrap();
    assert!(!shm.read().unwrap().valid);
}

#[test]
fn a_segment_says_when_its_sources_are_lost() {
    let place = tempfile::tempdir().unwrap();
    let segment = place.path().join("shm0");
    let outputs = format!(
        "clockbound = \"{}\"\nclockbound_version = 2\nalive_for = \"300 ms\"\nfresh_for = \"1 s\"",
        segment.display()
    );
    // The source is a segment of the same format, which the test then removes.
    let source = place.path().join("source");
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let theirs = SegmentV2 {
        generation: 2,
        as_of: Seconds {
            s: now.tv_sec,
            ns: now.tv_nsec,
        },
        void_after: Seconds {
            s: now.tv_sec + 1000,
            ns: 0,
        },
        bound_ns: 300_000,
        disruption_marker: 0,
        max_drift_ppb: 1000,
        status: ClockStatus::Synchronized,
        disruption_support: false,
    };
    std::fs::write(&source, theirs.emit()).unwrap();
    let text = format!("type = \"clockbound\"\npath = \"{}\"", source.display());
    let text = timeline("lost", &text, &outputs);
    let daemon = serve(&config(place.path(), &text)).unwrap();
    let expect = |status| {
        wait_for("the status", || {
            v2(&segment).filter(|found| found.status == status)
        })
    };
    // The bound is as wide as that of the source.
    let before = expect(ClockStatus::Synchronized);
    assert!(before.bound_ns >= 300_000, "{before:?}");
    std::fs::remove_file(&source).unwrap();
    let after = expect(ClockStatus::FreeRunning);
    assert!(ns(after.void_after) > ns(after.as_of), "{after:?}");
    drop(daemon);
}

#[test]
fn unusable_outputs_are_refused_at_the_start() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    std::fs::write(at("letter"), "Dear reader, this is no segment.").unwrap();
    let refusal = |outputs: &str| {
        let text = timeline("bad", OWN, outputs);
        serve(&config(place.path(), &text)).unwrap_err().to_string()
    };
    for (key, name) in [
        ("clockbound", "letter"),
        ("clockbound", "none/shm0"),
        ("chrony_sock", "letter"),
        ("chrony_sock", "none/chrony"),
    ] {
        let why = refusal(&format!("clockbound_version = 2\n{key} = \"{}\"", at(name)));
        assert!(why.contains(&at(name)) && why.contains("name"), "{why}");
    }
    let letter = std::fs::read_to_string(at("letter")).unwrap();
    assert!(letter.starts_with("Dear"));
    // First two timelines of one daemon, then two daemons.
    let outputs = format!("clockbound_version = 2\nclockbound = \"{}\"", at("shm0"));
    let mistake = |first: &str, second: &str| {
        let text = timeline("a", OWN, first) + &timeline("b", OWN, second);
        let parsed = text.parse::<timeloom_timelined::config::DaemonConfig>();
        parsed.unwrap_err().to_string()
    };
    assert!(mistake(&outputs, &outputs).contains("clockbound is also that of timeline a"));
    assert!(mistake("ntp_shm = 7", "ntp_shm = 7").contains("ntp_shm is also"));
    let sock = format!("chrony_sock = \"{}\"", at("s"));
    let round = format!("chrony_sock = \"{}\"", at("./s"));
    assert!(mistake(&sock, &round).contains("chrony_sock is also"));
    assert!(mistake("", "clockbound_version = 4").contains("2 or 3"));
    assert!(mistake("", "scale = \"local\"\nntp_shm = 7").contains("UTC"));
    let _first = serve(&config(place.path(), &timeline("c", OWN, &outputs))).unwrap();
    let second = serve(&config(place.path(), &timeline("d", OWN, &outputs)));
    assert!(
        second
            .unwrap_err()
            .to_string()
            .contains("another daemon writes it")
    );
}
