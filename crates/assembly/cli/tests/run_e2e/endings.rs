//! Ctrl-C, SIGTERM and SIGKILL at any time: no process may be left frozen, and no namespace,
//! cgroup, socket or mount may be left.

use std::time::Duration;

use timeloom_results::{Outcome, RunDirectory};

use crate::support::{Finished, Lab, Running, Scenario, log_lines, patiently, place, timeloom};

/// Returns a run with a plant, a capture, and two programs, one of which starts further processes.
/// The run lasts for far longer than the test.
pub(crate) fn long() -> Lab {
    Lab::new(
        &Scenario::lasting("600 s")
            .program(
                'a',
                "client",
                &["python3", "poll.py", "10.0.0.10", "0.02"],
                "",
            )
            .program(
                'b',
                "parent",
                &["sh", "-c", "sleep 1000 & setsid sleep 1000 & wait"],
                "",
            )
            .plant("{}")
            .and("[[capture]]\nlink = [\"a\", \"s1\"]\n"),
    )
}

/// Starts the run, and waits until it is running or, with `paused`, stopped by `timeloom pause`.
pub(crate) fn under_way(lab: &Lab, paused: bool) -> Running<'_> {
    let mut run = lab.start(&[]);
    run.wait_until(0.4);
    // Processes: supervisor, reaper, plant, client, shell and two sleeps. Namespaces: three
    // stations and the switches. If there were fewer, the test would prove nothing.
    let all = || lab.processes().len() >= 7;
    assert!(patiently(Duration::from_secs(120), all), "{:?}", lab.left());
    assert_eq!(lab.networks(), 4);
    if paused {
        let status = run.control("pause").expect("it can be paused");
        assert_eq!(status["paused"], true);
    }
    run
}

pub(crate) fn assert_recorded(directory: &RunDirectory) {
    let series = directory
        .series(&["world.t_ns"])
        .expect("the signals can be read");
    let times: Vec<i64> = series[0].samples.iter().map(|(t, _)| t.as_ns()).collect();
    let expected: Vec<i64> = (0..times.len() as i64)
        .map(|step| step * 50_000_000)
        .collect();
    assert_eq!(times, expected, "samples are missing");
    assert!(times.len() >= 4, "the record ends too early: {times:?}");
}

fn interrupt(signal: i32, paused: bool) {
    let lab = long();
    let run = under_way(&lab, paused);
    run.signal(signal);
    let run: Finished = run.wait();
    assert_eq!(run.code, 1, "{}", run.output());
    assert!(
        run.stdout.contains("stopped from outside"),
        "{}",
        run.output()
    );
    lab.assert_nothing_left();
    let directory = run.directory();
    let manifest = run.manifest();
    assert_eq!(manifest.outcome, Outcome::Interrupted);
    assert!(manifest.ended.is_some());
    assert!(directory.is_finished());
    assert_recorded(&directory);
    assert!(place(&directory).join("report.html").exists());
}

#[test]
fn ctrl_c_ends_a_run() {
    interrupt(libc::SIGINT, false);
}

#[test]
fn ctrl_c_ends_a_run_that_stands() {
    interrupt(libc::SIGINT, true);
}

#[test]
fn sigterm_ends_a_run() {
    interrupt(libc::SIGTERM, false);
}

#[test]
fn sigterm_ends_a_run_that_stands() {
    interrupt(libc::SIGTERM, true);
}

/// Checks that the data of a killed run are complete again after `timeloom report`.
pub(crate) fn assert_recovered(lab: &Lab) {
    let path = lab.run_path();
    let directory = RunDirectory::open(&path).expect("there is a run directory");
    assert!(!directory.is_finished(), "no process was left to finish it");
    assert_eq!(
        directory.manifest().expect("a manifest").outcome,
        Outcome::Running
    );
    let report = timeloom(&["report", path.to_str().expect("UTF-8")]);
    assert!(
        report.status.success(),
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
    assert!(directory.is_finished());
    assert_eq!(
        directory.manifest().expect("a manifest").outcome,
        Outcome::Interrupted
    );
    let events = directory.events().expect("the events can be read");
    assert!(events.iter().any(|row| &*row.source == "parent"));
    drop(directory);
    // After the recovery, nothing may be left in the run's directory either.
    lab.assert_nothing_left();
}

/// Waits until signals are in the journal's file. They reach it within two seconds of each other,
/// and can be read during the run.
pub(crate) fn wait_for_signals(lab: &Lab) {
    let recorded = patiently(Duration::from_secs(120), || {
        let directory = RunDirectory::open(lab.run_path()).expect("there is a run directory");
        let series = directory.series(&["world.t_ns"]);
        series.is_ok_and(|series| series[0].samples.len() >= 4)
    });
    assert!(recorded, "no signals reach the journal");
}

fn kill(paused: bool) {
    let lab = long();
    let run = under_way(&lab, false);
    wait_for_signals(&lab);
    if paused {
        run.control("pause").expect("it can be paused");
    }
    run.signal(libc::SIGKILL);
    let run = run.wait();
    assert_eq!(run.code, 128 + libc::SIGKILL);
    // The reaper must have removed everything, without `timeloom clean`.
    lab.assert_nothing_left();
    assert_recovered(&lab);
    assert_recorded(&run.directory());
}

#[test]
fn the_keeper_cleans_up_after_a_supervisor_that_was_killed() {
    kill(false);
}

#[test]
fn the_keeper_cleans_up_after_a_supervisor_that_was_killed_while_it_stood() {
    kill(true);
}

#[test]
fn clean_mends_it_when_the_keeper_is_killed_too() {
    let _turn = timeloom_test_support::orphans_turn();
    let lab = long();
    let run = under_way(&lab, true);
    let keepers: Vec<i32> = lab
        .processes()
        .into_iter()
        .filter(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "timeloom-keeper")
        })
        .collect();
    assert_eq!(keepers.len(), 1, "there is one keeper");
    // SAFETY: the reaper of our own run.
    unsafe { libc::kill(keepers[0], libc::SIGKILL) };
    run.signal(libc::SIGKILL);
    assert_eq!(run.wait().code, 128 + libc::SIGKILL);

    // If everything disappeared by itself, the test would show nothing.
    std::thread::sleep(Duration::from_millis(300));
    let left = lab.left();
    for what in ["poll.py", "timeloom.e2e", ".sock", "namespace"] {
        assert!(left.iter().any(|found| found.contains(what)), "{left:?}");
    }
    let bystander = long();
    let other = under_way(&bystander, false);

    let clean = timeloom(&["clean"]);
    assert!(
        clean.status.success(),
        "{}",
        String::from_utf8_lossy(&clean.stderr)
    );
    lab.assert_nothing_left();
    assert_recovered(&lab);

    // The other run must not have been touched.
    assert!(patiently(Duration::from_secs(120), || other
        .control("query")
        .is_ok()));
    assert!(!bystander.left().is_empty());
    other.signal(libc::SIGINT);
    assert_eq!(other.wait().code, 1);
    bystander.assert_nothing_left();
}

/// A scenario with a single host needs no link, neither for `check` nor for a run.
#[test]
fn a_single_host_runs_without_a_link() {
    let lab = Lab::with_text(
        r#"schema = "timeloom/1"
name = "alone"
time = { duration = "1 s" }
[system.hosts.a]
address = "10.0.0.1/24"
programs = [{ name = "talk", run = ["sh", "-c", "hostname -I; sleep 5"] }]
"#,
    );
    lab.run(&[]).succeeded();
    let log = log_lines(&lab.run_path(), "talk");
    assert_eq!(log[0].1.trim(), "10.0.0.1");
    lab.assert_nothing_left();
}
