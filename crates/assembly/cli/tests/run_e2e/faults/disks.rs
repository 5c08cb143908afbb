//! The disk becomes full during a run.

use std::path::{Path, PathBuf};
use std::process::Command;

use timeloom_results::{EventRow, Outcome};

use crate::support::{Finished, Lab, Scenario, timeloom};

/// Disk of a given size, mounted at the path of the run directory.
struct Disk(PathBuf);

impl Disk {
    fn new(lab: &Lab, size: &str) -> Self {
        let path = lab.run_path();
        std::fs::create_dir(&path).expect("a new directory");
        mount(
            &[
                "-t",
                "tmpfs",
                "-o",
                &format!("mode=755,size={size}"),
                "tmpfs",
            ],
            &path,
        );
        lab.expect_mounts();
        Self(path)
    }

    fn grow(&self, size: &str) {
        mount(&["-o", &format!("remount,size={size}")], &self.0);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn mount(how: &[&str], path: &Path) {
    let done = Command::new("mount").args(how).arg(path).status();
    assert!(done.expect("there is mount").success());
}

/// Runs a program that prints its observations, and then prints until the disk is full.
fn fill(lab: &Lab) -> Finished {
    let run = lab.run(&[]);
    assert_eq!(run.code, 1, "{}", run.output());
    for word in ["FAILED at", "results: ", "No space left on device"] {
        assert!(run.stdout.contains(word), "no {word:?}: {}", run.output());
    }
    lab.assert_nothing_left();
    let manifest = run.manifest();
    assert_eq!(manifest.outcome, Outcome::Failed);
    let culprit = manifest.culprit.expect("a culprit");
    assert!(culprit.contains("No space left on device"), "{culprit}");
    assert!(manifest.ended.is_some());
    assert!(manifest.virtual_duration.as_ns() > 0);
    run
}

/// The plant's samples until then, the events and the output must be available once there is space.
#[test]
fn a_full_disk_ends_the_run_and_loses_nothing_that_was_recorded() {
    // The output is longer than the reserved space.
    let flood =
        "import time, sys\nwhile True:\n sys.stdout.write('x' * 99 + '\\n'); sys.stdout.flush()";
    let scenario = Scenario::lasting("600 s")
        .program('a', "flood", &["python3", "-c", flood], "")
        .program(
            'b',
            "client",
            &["python3", "poll.py", "10.0.0.10", "0.02"],
            "",
        )
        .plant("{}");
    let lab = Lab::new(&scenario);
    let disk = Disk::new(&lab, "3m");
    let run = fill(&lab);
    disk.grow("64m");
    let report = timeloom(&["report", lab.run_path().to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&report.stderr);
    assert!(report.status.success(), "{said}");
    let directory = run.directory();
    assert!(directory.is_finished());
    let manifest = run.manifest();
    assert_eq!(manifest.outcome, Outcome::Failed, "it still says so");
    // No sample may be missing from the first one to the last one before the end.
    let series = directory.series(&["world.t_ns"]).expect("the signals");
    let times: Vec<i64> = series[0].samples.iter().map(|(t, _)| t.as_ns()).collect();
    let expected: Vec<i64> = (0..times.len() as i64)
        .map(|step| step * 50_000_000)
        .collect();
    assert_eq!(times, expected, "samples are missing");
    let mut events = Vec::new();
    let keep = |row: EventRow| {
        events.push(row);
        Ok(())
    };
    directory.for_each(keep).expect("the events");
    for program in ["flood", "client"] {
        let begun = |row: &EventRow| &*row.source == program && &*row.kind == "start";
        assert!(events.iter().any(begun), "{program}");
    }
    let log = std::fs::read_to_string(lab.run_path().join("logs/flood.log")).expect("a log");
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    assert!(whole.lines().count() > 100);
    assert!(whole.lines().all(|line| line.ends_with(&"x".repeat(99))));
    drop(directory);
    lab.assert_nothing_left();
}

#[test]
fn a_disk_without_room_is_said_before_anything_starts() {
    let lab = Lab::new(&Scenario::lasting("1 s"));
    let _disk = Disk::new(&lab, "512k");
    let run = lab.run(&[]);
    assert_eq!(run.code, 1, "{}", run.output());
    assert!(
        run.stderr.contains("No space left on device"),
        "{}",
        run.output()
    );
    lab.assert_nothing_left();
}

/// The disk has space for the manifest and little more. The Python package of a program does not
/// fit, which is written before anything starts.
#[test]
fn a_disk_that_is_full_just_after_the_manifest_leaves_a_failed_run() {
    // This interpreter lacks the package, whichever packages the environment's interpreter has.
    let python = ["/usr/bin/python3", "-I", "-c", "pass"];
    let lab = Lab::new(&Scenario::lasting("1 s").program(
        'a',
        "idle",
        &python,
        "env = { PYTHONPATH = \"/nowhere\" }",
    ));
    // The size is that of the reserved space and 32 KiB.
    let _disk = Disk::new(&lab, "1056k");
    let run = lab.run(&[]);
    assert_eq!(run.code, 1, "{}", run.output());
    let manifest = run.manifest();
    assert_eq!(manifest.outcome, Outcome::Failed, "{}", run.output());
    let culprit = manifest.culprit.expect("a culprit");
    assert!(culprit.contains("No space left on device"), "{culprit}");
    assert!(manifest.ended.is_some());
    lab.assert_nothing_left();
}
