//! Directory of a run, from its creation to the last reader, including a kill.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use timeloom_results::*;
use timeloom_time::{Duration, Instant, Utc};

fn signal(ms: i64, name: &str, value: f64) -> SignalRow {
    SignalRow {
        t_virtual: Instant::from_ns(ms * 1_000_000),
        t_wall: Instant::from_ns(ms * 3_000_000 + 7),
        host: "a".into(),
        source: "grid".into(),
        name: name.into(),
        value,
        unit: "V".into(),
    }
}

fn event(ms: i64, text: &str) -> EventRow {
    EventRow {
        t_virtual: Instant::from_ns(ms * 1_000_000),
        t_wall: Instant::ZERO,
        host: "a".into(),
        source: "ctl".into(),
        kind: "start".into(),
        text: text.into(),
    }
}

fn pause(seq: u64) -> ClockRow {
    ClockRow {
        seq,
        t_virtual: Instant::from_ns(5),
        t_wall: Instant::from_ns(-9),
        host: "a".into(),
        action: ClockAction::Pause,
        requester: "grid".into(),
        reason: "exchange".into(),
        duration: Duration::from_us(3),
    }
}

fn label(end_ns: i64) -> LabelRow {
    LabelRow {
        start: Instant::from_ns(22_500_000_000),
        end: Instant::from_ns(end_ns),
        technique: "T0814".into(),
        target: "h1".into(),
        attack: "dos1".into(),
    }
}

fn all<R: Row>(run: &RunDirectory) -> Vec<R> {
    let mut rows = Vec::new();
    run.for_each(|row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    rows
}

/// A source that writes without limit gets its share and no more. The others lose nothing.
#[test]
fn a_source_beyond_its_share_is_cut_and_the_others_are_complete() {
    let temporary = tempfile::tempdir().unwrap();
    let traces = timeloom_test_support::Traces::in_directory(temporary.path());
    let run = RunDirectory::create(temporary.path().join("run")).unwrap();
    let recorder = run.recorder().unwrap();
    recorder.limit_each(2000);
    let of = |source: &str, ms| SignalRow {
        source: source.into(),
        ..signal(ms, "v680", 2400.0)
    };
    for ms in 0..100 {
        recorder.signal(&of("flood", ms)).unwrap();
        recorder.event(&event(ms, "said")).unwrap();
        if ms % 10 == 0 {
            recorder.signal(&of("grid", ms)).unwrap();
        }
        // Labels have no source.
        recorder.label(&label(ms)).unwrap();
    }
    let cut = recorder.cut();
    recorder.finish().unwrap();

    let kept = |source: &str| {
        let mut kept = all::<SignalRow>(&run);
        kept.retain(|row| &*row.source == source);
        kept
    };
    assert_eq!(
        kept("grid"),
        [0, 10, 20, 30, 40, 50, 60, 70, 80, 90].map(|ms| of("grid", ms))
    );
    let flood = kept("flood");
    assert_eq!(
        flood,
        (0..flood.len() as i64)
            .map(|ms| of("flood", ms))
            .collect::<Vec<_>>()
    );
    // A row has about 50 bytes.
    assert!((20..60).contains(&flood.len()), "{}", flood.len());
    let said = run.events().unwrap().len();
    let expected = [("a/ctl", said), ("a/flood", flood.len())].map(|(source, kept)| CutRows {
        source: source.into(),
        since: Instant::from_ns(kept as i64 * 1_000_000),
        left_out_rows: 100 - kept as u64,
    });
    assert_eq!(cut, expected);
    assert_eq!(run.labels().unwrap(), [label(99)]);
    drop((recorder, run));
    traces.assert_nothing_left();
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn records_are_read_back_before_and_after_finishing() {
    let temporary = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(temporary.path().join("run")).unwrap();
    let recorder = run.recorder().unwrap();
    let mut signals: Vec<_> = (0..70_000)
        .map(|i| signal(i, "v680", 2400.0 + (i as f64).sin()))
        .collect();
    signals.push(signal(3, "p \"quoted\"\n", -0.0));
    signals.iter().for_each(|row| recorder.signal(row).unwrap());
    let events = [event(1, "<script>"), event(2, "ünïcode")];
    events.iter().for_each(|row| recorder.event(row).unwrap());
    recorder.clock(&pause(u64::from(u32::MAX) + 1)).unwrap();
    recorder.label(&label(i64::MAX)).unwrap();
    recorder.label(&label(30_000_000_000)).unwrap();
    recorder.flush().unwrap();
    assert!(!run.is_finished());
    assert_eq!(
        all::<SignalRow>(&run),
        signals,
        "a run in progress is readable"
    );
    assert_eq!(run.labels().unwrap(), [label(30_000_000_000)]);

    let done = recorder.finish().unwrap();
    assert_eq!(
        done,
        Consolidation {
            rows: 70_001 + 2 + 1 + 1,
            torn_lines: 0
        }
    );
    assert!(matches!(
        recorder.event(&events[0]),
        Err(ResultsError::Finished(_))
    ));
    let run = RunDirectory::open(crate::place(&run))
        .expect("known by its tables, even without a manifest");
    assert!(run.is_finished());
    assert_eq!(all::<SignalRow>(&run), signals, "two row groups");
    assert_eq!(run.events().unwrap(), events);
    assert_eq!(run.clock().unwrap(), [pause(u64::from(u32::MAX) + 1)]);
    assert_eq!(run.labels().unwrap(), [label(30_000_000_000)]);

    let series = run.series(&["v680", "grid.v680", "other.v680"]).unwrap();
    assert_eq!(
        series.iter().map(|s| s.samples.len()).collect::<Vec<_>>(),
        [70_000, 70_000, 0]
    );
    assert_eq!((&*series[0].unit, &*series[2].unit), ("V", ""));
    assert_eq!(
        names(&crate::place(&run)),
        [
            "clock.parquet",
            "events.parquet",
            "inputs",
            "labels.parquet",
            "logs",
            "net",
            "signals.parquet"
        ]
    );
}

#[test]
fn values_that_are_no_numbers_are_refused_at_the_door() {
    let temporary = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(temporary.path()).unwrap();
    let recorder = run.recorder().unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = recorder.signal(&signal(1, "v", bad)).unwrap_err();
        assert!(error.to_string().contains("grid.v"), "{error}");
    }
    recorder.finish().unwrap();
    assert_eq!(all::<SignalRow>(&run), []);
}

#[test]
fn only_a_run_is_overwritten() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("home");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("thesis.tex"), "years of work").unwrap();
    fs::write(
        path.join("manifest.json"),
        "{\"name\": \"another program's\"}",
    )
    .unwrap();
    assert!(matches!(
        RunDirectory::create(&path),
        Err(ResultsError::NotARun(_))
    ));
    assert!(matches!(
        RunDirectory::open(&path),
        Err(ResultsError::NoRunHere(_))
    ));
    assert_eq!(names(&path), ["manifest.json", "thesis.tex"]);

    let path = temporary.path().join("run");
    let run = RunDirectory::create(&path).unwrap();
    run.recorder().unwrap().event(&event(1, "old")).unwrap();
    run.write_report("old").unwrap();
    fs::write(path.join("logs/old.log"), "old").unwrap();
    fs::write(path.join("my-notes.txt"), "keep").unwrap();
    assert!(matches!(
        RunDirectory::create(&path),
        Err(ResultsError::RunThere(_))
    ));
    assert_eq!(run.events().unwrap().len(), 1, "a refusal touches nothing");
    run.keep_input("script.py", b"old").unwrap();
    let run = RunDirectory::replace(&path).unwrap();
    assert_eq!(run.events().unwrap(), []);
    let folders = ["inputs", "journal", "logs", "my-notes.txt", "net"];
    assert_eq!(names(&path), folders);
    assert_eq!(names(&path.join("inputs")), [] as [&str; 0]);
    assert_eq!(names(&path.join("logs")), [] as [&str; 0]);
}

#[test]
fn a_live_run_is_neither_recovered_nor_replaced() {
    let temporary = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(temporary.path()).unwrap();
    let recorder = run.recorder().unwrap();
    assert!(matches!(run.recorder(), Err(ResultsError::InUse(_))));
    assert!(matches!(
        RunDirectory::recover(crate::place(&run)),
        Err(ResultsError::InUse(_))
    ));
    assert!(matches!(
        RunDirectory::replace(crate::place(&run)),
        Err(ResultsError::InUse(_))
    ));
    drop(recorder);
    RunDirectory::recover(crate::place(&run)).unwrap();
}

#[test]
fn names_from_outside_stay_in_their_folder() {
    let temporary = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(temporary.path()).unwrap();
    for name in [
        "../../etc/passwd",
        "a/b",
        "a_b",
        "",
        ".hidden",
        "ctl.stdout",
    ] {
        writeln!(run.log(name).unwrap().0, "x").unwrap();
    }
    assert_eq!(
        names(&crate::place(&run).join("logs")),
        [
            "_.._.._etc_passwd.log",
            "_.hidden.log",
            "_.log",
            "a_b-2.log",
            "a_b.log",
            "ctl.stdout.log"
        ]
    );
}

/// The process that is killed: the test below starts this function in a process of its own.
#[test]
fn killed_child() {
    let Some(path) = std::env::var_os("TIMELOOM_KILLED_RUN") else {
        return;
    };
    let run = RunDirectory::create(Path::new(&path)).unwrap();
    run.write_manifest(&Manifest::begin("killed", 1, Instant::<Utc>::ZERO, b""))
        .unwrap();
    let recorder = run.recorder().unwrap();
    for i in 0..10_000 {
        recorder.signal(&signal(i, "v680", i as f64)).unwrap();
    }
    recorder.flush().unwrap();
    recorder.event(&event(1, "about to die")).unwrap();
    recorder.label(&label(i64::MAX)).unwrap();
    std::process::abort();
}

#[test]
fn a_killed_run_keeps_its_records() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("run");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "run_directory::killed_child"])
        .env("TIMELOOM_KILLED_RUN", &path)
        .output()
        .unwrap()
        .status;
    assert!(!status.success());
    let mut journal = fs::OpenOptions::new()
        .append(true)
        .open(path.join("journal/signals.jsonl"))
        .unwrap();
    journal.write_all(b"[10000000000,3,\"a\",\"gri").unwrap();

    let (run, recovered) = RunDirectory::recover(&path).unwrap();
    assert_eq!(
        recovered,
        Consolidation {
            rows: 10_002,
            torn_lines: 1
        }
    );
    assert_eq!(run.series(&["v680"]).unwrap()[0].samples.len(), 10_000);
    assert_eq!(run.labels().unwrap()[0].end, Instant::FAR_FUTURE);
    assert_eq!(run.manifest().unwrap().outcome, Outcome::Interrupted);
    assert_eq!(
        RunDirectory::recover(&path).unwrap().1,
        Consolidation::default(),
        "twice is once"
    );
}

#[test]
fn checks_come_back() {
    let temporary = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(temporary.path()).unwrap();
    let check = |measured| CheckResult {
        name: "sag".into(),
        passed: true,
        measured,
        expression: "min(v680) in 2280..2330".into(),
        explanation: "it holds".into(),
        applies: true,
    };
    let checks = [
        check(2294.5.into()),
        check("none".into()),
        check(f64::NAN.into()),
    ];
    run.write_checks(&checks).unwrap();
    assert_eq!(run.checks().unwrap(), checks);
}
