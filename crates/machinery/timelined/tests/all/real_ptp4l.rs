//! Test with real `ptp4l` programs in two namespaces of one machine. They share the true clock, so
//! every nanosecond of offset is error.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::net::{Cable, INTERFACE, Running, find};
use crate::common::{config, realtime_ns, wait_for};
use timeloom_clock::quality::Status;
use timeloom_test_support::eventually;
use timeloom_timeline::protocol::Connection;
use timeloom_timeline::protocol::{Answer, PlainRequirement, RequestKind};
use timeloom_timeline::shm::PageReader;
use timeloom_timelined::serve;

/// Starts a `ptp4l` that steers no clock (`free_running`).
fn start_ptp4l(cable: &Cable, end: usize, directory: &Path) -> Running {
    let at = |name: &str| directory.join(format!("{name}{end}")).display().to_string();
    let role = if end == 0 {
        "masterOnly 1\npriority1 10".to_owned()
    } else {
        format!("slaveOnly 1\nslave_event_monitor {}", at("monitor"))
    };
    let settings = format!(
        "[global]\ntime_stamping software\nnetwork_transport L2\nfree_running 1\n\
         logSyncInterval -3\nlogMinDelayReqInterval -3\nlogAnnounceInterval -2\n\
         tx_timestamp_timeout 200\nsummary_interval -4\nfreq_est_interval 0\nuds_address {}\n{role}\n",
        at("uds")
    );
    std::fs::write(at("conf"), settings).unwrap();
    let arguments = ["-m", "-i", INTERFACE, "-f", &at("conf")];
    cable.start(
        end,
        &find("ptp4l").expect("`make test` installs linuxptp"),
        &arguments,
        at("log").as_ref(),
    )
}

/// Results of a run, in nanoseconds.
#[derive(Debug, Default)]
struct Shown {
    samples: usize,
    without: usize,
    errors: Vec<i64>,
    widths: Vec<i64>,
}

fn mean_and_deviation(values: &[i64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n;
    let squares = values
        .iter()
        .map(|v| (*v as f64 - mean).powi(2))
        .sum::<f64>();
    (mean, (squares / n).sqrt())
}

/// Reads the timeline for `length` and asserts that every interval contains true time.
///
/// The timeline is ahead of the system clock by `ahead_s` seconds, the offset of its scale.
fn contains_truth(reader: &PageReader, ahead_s: i64, length: Duration) -> Shown {
    let truth_ns = || realtime_ns() + ahead_s * 1_000_000_000;
    let mut shown = Shown::default();
    let end = Instant::now() + length;
    while Instant::now() < end {
        let before_ns = truth_ns();
        let stamp = reader.read().unwrap();
        let after_ns = truth_ns();
        shown.samples += 1;
        if let Some(interval) = stamp.interval() {
            let (earliest, latest) = (interval.earliest().as_ns(), interval.latest().as_ns());
            assert!(
                earliest <= after_ns && before_ns <= latest,
                "sample {}: the truth {before_ns}…{after_ns} is not in {earliest}…{latest}",
                shown.samples
            );
            // A reading during which the thread was interrupted says nothing about the estimate.
            if after_ns - before_ns < 2_000 {
                shown
                    .errors
                    .push(interval.estimate().as_ns() - before_ns.midpoint(after_ns));
                shown.widths.push(latest - earliest);
            }
        } else {
            shown.without += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    shown
}

/// Runs `during` while other threads load the processors and the cable.
fn beside_load<T>(cable: &Cable, during: impl FnOnce() -> T) -> T {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let done = AtomicBool::new(false);
    let sink = cable.ends[1].udp_socket("10.77.0.2:9009").unwrap();
    let hose = cable.ends[0].udp_socket("10.77.0.1:0").unwrap();
    hose.connect("10.77.0.2:9009").unwrap();
    sink.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2000];
            while !done.load(Relaxed) {
                let _ = sink.recv(&mut buffer);
            }
        });
        scope.spawn(|| {
            // Bursts of traffic, for half of the time.
            while !done.load(Relaxed) {
                let burst = Instant::now();
                while burst.elapsed() < Duration::from_millis(5) {
                    let _ = hose.send(&[0; 1400]);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        scope.spawn(|| {
            let mut number = 1u64;
            while !done.load(Relaxed) {
                for _ in 0..20_000 {
                    number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7);
                }
                std::hint::black_box(number);
                if number & 7 == 0 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        let result = during();
        done.store(true, Relaxed);
        result
    })
}

/// Binds with twice the accuracy that the daemon reports as the best possible, so that the daemon
/// polls as often as it can.
fn bind_tightly(connection: &mut Connection) -> i64 {
    wait_for("a binding", || {
        let mut need = PlainRequirement {
            below_ns: 0,
            above_ns: 0,
            resolution_ns: 1,
        };
        let Ok(Answer::Impossible { accuracy_ns, .. }) = connection.ask(RequestKind::Bind(need))
        else {
            return None;
        };
        (need.below_ns, need.above_ns) = (2 * accuracy_ns, 2 * accuracy_ns);
        let bound = connection.ask(RequestKind::Bind(need));
        matches!(bound, Ok(Answer::Bound { .. })).then_some(2 * accuracy_ns)
    })
}

/// Returns the offsets in nanoseconds that a `ptp4l` has logged, beginning with number `told`.
fn offsets_in(log: &Path, told: &mut usize) -> Vec<i64> {
    let text = std::fs::read_to_string(log).unwrap();
    let offset = |line: &str| {
        let (_, rest) = line.split_once("master offset")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let all: Vec<i64> = text.lines().filter_map(offset).collect();
    let new = all[*told..].to_vec();
    *told = all.len();
    new
}

fn prove(length: Duration) {
    let cable = Cable::lay();
    let directory = tempfile::tempdir().unwrap();
    let timelines = format!(
        r#"
        [[timeline]]
        name = "ptp"
        scale = "local"
        poll = {{ shortest = "50 ms", longest = "1 s" }}
        [[timeline.source]]
        type = "ptp4l"
        monitor = "{0}/monitor1"
        socket = "{0}/uds1"
        "#,
        directory.path().display()
    );
    let daemon = serve(&config(directory.path(), &timelines)).unwrap();
    let _master = start_ptp4l(&cable, 0, directory.path());
    let mut slave = start_ptp4l(&cable, 1, directory.path());
    let timeline = daemon.timelines().next().unwrap();
    let reader = PageReader::open(timeline.page()).unwrap();
    wait_for("the first interval", || {
        assert!(
            slave.alive(),
            "{:?}",
            std::fs::read_to_string(directory.path().join("log1"))
        );
        (reader.read().unwrap().status() == Status::Ok).then_some(())
    });
    let mut connection = Connection::open(daemon.directory(), timeline.name()).unwrap();
    let accuracy_ns = bind_tightly(&mut connection);
    eprintln!("bound to ± {accuracy_ns} ns");
    let mut told = offsets_in(&directory.path().join("log1"), &mut 0).len();
    for loaded in [false, true] {
        let what = if loaded { "beside load" } else { "alone" };
        let shown = if loaded {
            beside_load(&cable, || contains_truth(&reader, 0, length))
        } else {
            contains_truth(&reader, 0, length)
        };
        let (error, deviation) = mean_and_deviation(&shown.errors);
        let (width, _) = mean_and_deviation(&shown.widths);
        // Offsets that plain `ptp4l` reported in the same time; the true offset is 0.
        let offsets = offsets_in(&directory.path().join("log1"), &mut told);
        let (offset, spread) = mean_and_deviation(&offsets);
        let rms = |mean: f64, deviation: f64| mean.hypot(deviation);
        eprintln!(
            "{what}: {} samples, {} without interval; error {error:.0} ns σ {deviation:.0} ns, width {width:.0} ns; \
             plain ptp4l {} offsets, error {offset:.0} ns σ {spread:.0} ns; error ÷ ptp4l's {:.2}, width ÷ it {:.2}",
            shown.samples,
            shown.without,
            offsets.len(),
            rms(error, deviation) / rms(offset, spread),
            width / rms(offset, spread),
        );
        assert!(
            shown.samples > 100 && shown.without < shown.samples / 2,
            "{what}"
        );
    }
    let report = timeline.report().unwrap();
    assert_eq!(report.disturbances, 0, "{report:?}");
    eprintln!("{:?}", report.sources);
}

/// Makes a `ptp4l` announce this TAI offset as valid. Its other properties are its own defaults.
fn announce_tai_offset(directory: &Path, end: usize, offset_s: i16) {
    let settings = format!(
        "set GRANDMASTER_SETTINGS_NP clockClass 248 clockAccuracy 0xfe \
         offsetScaledLogVariance 0xffff currentUtcOffset {offset_s} leap61 0 leap59 0 \
         currentUtcOffsetValid 1 ptpTimescale 0 timeTraceable 0 frequencyTraceable 0 \
         timeSource 0xa0"
    );
    let at = |name: &str| directory.join(format!("{name}{end}")).display().to_string();
    wait_for("a ptp4l that announces the offset", || {
        let pmc = Command::new(find("pmc").expect("`make test` installs linuxptp"))
            .args([
                "-u",
                "-b",
                "0",
                "-s",
                &at("uds"),
                "-i",
                &at("pmc"),
                &settings,
            ])
            .output()
            .unwrap();
        let answer = String::from_utf8_lossy(&pmc.stdout).into_owned();
        answer.contains("RESPONSE").then_some(())
    });
}

/// Since 2017, TAI is 37 s ahead of UTC. A master whose offset was never set announces 1 s after a
/// leap second, which the table of leap seconds disproves.
#[test]
fn a_wrong_tai_offset_of_a_ptp4l_master_is_in_no_reading() {
    let cable = Cable::lay();
    let directory = tempfile::tempdir().unwrap();
    let timelines = |offset: &str| {
        format!(
            r#"
            [[timeline]]
            name = "ptp"
            scale = "tai"
            {offset}
            poll = {{ shortest = "50 ms", longest = "1 s" }}
            [[timeline.source]]
            type = "ptp4l"
            monitor = "{directory}/monitor1"
            socket = "{directory}/uds1"
            shows = "utc"
            reference_error = "0 ns"
            "#,
            directory = directory.path().display()
        )
    };
    for (announced_s, configured, expected) in [
        (37, "", Ok(None)),
        (
            1,
            "tai_offset_s = 37",
            Ok(Some("master says that TAI is 1 s")),
        ),
        (1, "", Err("master says that TAI is 1 s")),
        (37, "tai_offset_s = 36", Err("master says that TAI is 37 s")),
    ] {
        let case = format!("{announced_s} {configured:?}");
        let daemon = serve(&config(directory.path(), &timelines(configured))).unwrap();
        let _master = start_ptp4l(&cable, 0, directory.path());
        announce_tai_offset(directory.path(), 0, announced_s);
        let _slave = start_ptp4l(&cable, 1, directory.path());
        let timeline = daemon.timelines().next().unwrap();
        let reader = PageReader::open(timeline.page()).unwrap();
        match expected {
            Ok(warning) => {
                wait_for(&case, || {
                    (reader.read().unwrap().status() == Status::Ok).then_some(())
                });
                let shown = contains_truth(&reader, 37, Duration::from_millis(500));
                assert!(shown.samples > shown.without, "{case}: {shown:?}");
                // An answer from before the first Announce has no offset, and may be cached. A
                // wrong offset of this machine's kernel is reported as well.
                let warned = || {
                    let warned = timeline.report().unwrap().tai_offset_contradiction;
                    warned.unwrap_or_default()
                };
                eventually(&case, || match warning {
                    Some(warning) => warned().contains(warning),
                    None => !warned().contains("master"),
                });
            }
            Err(reason) => wait_for(&case, || {
                assert_eq!(reader.read().unwrap().interval(), None, "{case}");
                let report = timeline.report().unwrap();
                let refusal = report.sources[0].last_refusal.clone();
                refusal
                    .is_some_and(|text| text.contains(reason))
                    .then_some(())
            }),
        }
    }
}

#[test]
fn the_bound_holds_over_real_ptp4l() {
    prove(Duration::from_secs(4));
}

#[test]
#[ignore = "ten minutes: `make proof-timeline`"]
fn the_bound_holds_for_ten_minutes_over_real_ptp4l() {
    prove(Duration::from_secs(300));
}
