//! Programs that print or record without limit.

use timeloom_results::{EventRow, SignalRow};

use crate::support::{Lab, POLL, Scenario};

const FLOOD: &str = "import os, time\nfor n in range(2000): os.write(1, b'%05d ' % n + b'y' * 93 + b'\\n')\ntime.sleep(1000)";

/// The limits must apply to each program and plant, and readiness checks must still see omitted
/// output.
#[test]
fn a_log_ends_at_its_limit_with_a_line_and_a_count() {
    // Time skips, but not while a program computes, so both programs have the time that they need
    // to start.
    let scenario = Scenario::lasting("200 s")
        .program(
            'a',
            "flood",
            &["python3", "-c", FLOOD],
            "ready = \"log:01999\"\nready_timeout = \"90 s\"",
        )
        .program(
            'b',
            "quiet",
            &["python3", "ticks.py", "10"],
            "after = [\"flood\"]",
        )
        .and("[results]\nlog_limit = \"20 KiB\"\n");
    let lab = Lab::new(&scenario);
    let run = lab.run(&["time.mode=skip"]).succeeded();
    lab.assert_nothing_left();
    let read = |name: &str| {
        let path = lab.run_path().join(format!("logs/{name}.log"));
        std::fs::read_to_string(path).expect("a log")
    };
    let log = read("flood");
    let lines: Vec<&str> = log.lines().collect();
    let (marker, kept) = lines.split_last().expect("lines");
    assert!(
        marker.contains("the limit of 20480 bytes is reached"),
        "{marker}"
    );
    for (index, line) in kept.iter().enumerate() {
        assert!(line.contains(&format!("] {index:05} y")), "{line}");
    }
    let kept_bytes: usize = kept.iter().map(|line| line.len() + 1).sum();
    assert!(
        kept_bytes <= 20480 && kept_bytes > 20480 - 200,
        "{kept_bytes}"
    );
    let cut = run.manifest().cut_logs;
    assert_eq!(cut.len(), 1, "{cut:?}");
    assert_eq!(cut[0].log, "logs/flood.log");
    // Omitted lines, with their timestamps, are as long as those that are kept.
    let line = kept[0].len() as u64 + 1;
    assert_eq!(cut[0].left_out_bytes, (2000 - kept.len() as u64) * line);
    assert!(read("quiet").contains("tick"));
}

#[test]
fn a_record_at_its_limit_ends_the_run_with_all_rows_until_then() {
    let scenario = Scenario::lasting("600 s")
        .program('b', "client", POLL, "")
        .plant("{}")
        .and("[results]\njournal_limit = \"20 KiB\"\n");
    let lab = Lab::new(&scenario);
    let run = lab.run(&[]).blames(&["results", "journal_limit", "20480"]);
    lab.assert_nothing_left();
    let mut times = Vec::new();
    let keep = |row: SignalRow| {
        if &*row.name == "t_ns" {
            times.push(row.t_virtual.as_ns());
        }
        Ok(())
    };
    run.directory().for_each(keep).expect("the signals");
    let expected: Vec<i64> = (0..times.len() as i64)
        .map(|step| step * 50_000_000)
        .collect();
    assert!(times.len() > 3, "{times:?}");
    assert_eq!(times, expected);
}

/// A source that records without limit must not end the run of the others, but makes it untrusted.
#[test]
fn rows_of_a_source_beyond_its_share_are_counted_and_left_out() {
    let scenario = Scenario::lasting("4 s")
        .program('b', "client", POLL, "")
        .program('a', "timer", &["sleep", "3"], "essential = false")
        .plant("{}")
        .and("[results]\nsource_limit = \"2 KiB\"\n");
    let lab = Lab::new(&scenario);
    let run = lab.run(&[]);
    lab.assert_nothing_left();
    assert_eq!(run.code, 4, "{}", run.output());
    let manifest = run.manifest();
    let mut rows = manifest.cut_rows.iter();
    let cut = rows.find(|cut| cut.source == "local/world");
    let cut = cut.expect("the plant records all the time");
    assert!(cut.left_out_rows > 0);
    let why = manifest.untrusted.join("\n");
    for word in ["local/world", "results.source_limit"] {
        assert!(why.contains(word), "no {word:?} in {why}");
    }
    let mut times = Vec::new();
    let keep = |row: SignalRow| {
        if &*row.source == "world" {
            times.push(row.t_virtual);
        }
        Ok(())
    };
    run.directory().for_each(keep).expect("the signals");
    assert!(times.iter().all(|at| *at <= cut.since), "{times:?} {cut:?}");
    let events = run.directory().events().expect("the events");
    let ended = |event: &EventRow| &*event.source == "timer" && &*event.kind == "end";
    assert!(events.iter().any(ended), "{events:#?}");
}

/// `timeloom check` must report the same, before anything is started.
#[test]
fn a_machine_without_enough_descriptors_is_told_before_anything_starts() {
    let lab = Lab::new(&Scenario::lasting("1 s"));
    let scenario = lab.path().join("scenario.toml");
    for arguments in [&["check"][..], &["run", "-o", "/nonexistent/run"]] {
        let output = std::process::Command::new("prlimit")
            .arg("--nofile=48:48")
            .arg(env!("CARGO_BIN_EXE_timeloom"))
            .args(arguments)
            .arg(&scenario)
            .output()
            .expect("prlimit is a part of util-linux");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for word in ["RLIMIT_NOFILE", "there are 48 here", "ulimit -Hn"] {
            assert!(said.contains(word), "no {word:?}: {said}");
        }
    }
    lab.assert_nothing_left();
}
