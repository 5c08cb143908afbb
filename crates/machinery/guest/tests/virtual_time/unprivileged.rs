//! Tests without root: everything works the same, except that processes are stopped by SIGSTOP.

use std::time::Duration;

use timeloom_test_support::need_root;

use crate::support::command_line::{CommandLine, User, eventually, shell, state_of};
use crate::support::{
    ATTEMPTS, Difference, Lines, PAUSE, c_program, differences, may_be_the_machines, natively,
};

/// Runs the programs under `timeloom exec` as another user, while `meanwhile` acts on the session
/// once they have begun. `meanwhile` returns true if it was in time: a busy machine may need longer
/// for that than the programs wait.
fn as_nobody(
    program: &str,
    mut wait_ms: u32,
    last_dilation: f64,
    meanwhile: impl Fn(&CommandLine) -> bool,
) {
    need_root();
    for attempt in 1.. {
        let (in_time, differences) = once_as_nobody(program, wait_ms, last_dilation, &meanwhile);
        if in_time && differences.is_empty() {
            return;
        }
        // A fault of Timeloom occurs every time; lateness caused by a busy machine does not.
        let is_its = differences.is_empty() || may_be_the_machines(&differences);
        assert!(
            is_its && attempt < ATTEMPTS,
            "in time: {in_time}; {differences:#?}"
        );
        wait_ms *= 2;
    }
}

/// Sends a request. Returns true if the session still existed.
fn in_time(line: &CommandLine, request: &[&str]) -> bool {
    let output = line.try_ask(request);
    let said = String::from_utf8_lossy(&output.stderr);
    let gone = ["there is no session", "the session has ended"]
        .iter()
        .any(|it| said.contains(it));
    assert!(output.status.success() || gone, "{request:?}: {output:?}");
    !gone
}

fn once_as_nobody(
    program: &str,
    wait_ms: u32,
    last_dilation: f64,
    meanwhile: impl Fn(&CommandLine) -> bool,
) -> (bool, Vec<Difference>) {
    let native = natively(c_program(program), wait_ms);
    let line = CommandLine::new(program, User::Nobody);
    let copy = line.scratch.copy(&c_program(program));
    let gate = crate::support::Gate::new(program);
    let argv = gate.arguments(&[copy.into()], wait_ms, &[]);
    let mut running = line.exec(["--quiet", "--"].map(Into::into).into_iter().chain(argv));
    eventually("the program", || line.output().contains("ready\n"));
    gate.open();
    let in_time = meanwhile(&line);
    let status = running.wait();
    let printed: Vec<String> = line.output().lines().map(str::to_owned).collect();
    assert_eq!(status, 0, "{printed:#?}");
    let mut differences = differences(&native, &Lines::parse(&printed), last_dilation, PAUSE);
    // This difference is the only one, and it is documented: a parent sees that its child is
    // stopped.
    differences.retain(|one| !one.text().starts_with("stops_unseen:"));
    line.assert_nothing_left();
    (in_time, differences)
}

#[test]
fn waits_exclude_a_pause_without_root() {
    as_nobody("waits", 800, 1.0, |line| {
        std::thread::sleep(Duration::from_millis(300));
        if !in_time(line, &["pause"]) {
            return false;
        }
        let pids = line.wait_for_process("waits.dynamic");
        assert!(
            pids.iter().all(|&pid| state_of(pid) == Some('T')),
            "all are stopped by signal"
        );
        std::thread::sleep(PAUSE);
        line.ask(&["resume"]);
        // If the run has begun, there are several processes for each case.
        pids.len() > 30
    });
}

#[test]
fn queues_and_timers_exclude_a_pause_without_root() {
    for program in ["queues", "posix_timers"] {
        as_nobody(program, 800, 1.0, |line| {
            std::thread::sleep(Duration::from_millis(300));
            let in_time = in_time(line, &["pause"]);
            if in_time {
                std::thread::sleep(PAUSE);
                line.ask(&["resume"]);
            }
            in_time
        });
    }
}

#[test]
fn waits_follow_a_change_of_rate_without_root() {
    as_nobody("waits", 800, 0.5, |line| {
        let slowed = in_time(line, &["dilate", "4"]);
        std::thread::sleep(Duration::from_millis(400));
        slowed && in_time(line, &["dilate", "0.5"])
    });
}

#[test]
fn process_trees_survive_pauses_without_root() {
    as_nobody("processes", 2_000, 1.0, |line| {
        let mut pauses = 0;
        while pauses < 40 && in_time(line, &["pause"]) {
            std::thread::sleep(Duration::from_millis(pauses % 4));
            line.ask(&["resume"]);
            pauses += 1;
        }
        pauses > 3
    });
}

#[test]
fn a_supervisor_killed_while_paused_leaves_nothing_without_root() {
    need_root();
    let line = CommandLine::new("killed-nobody", User::Nobody);
    let running = line.exec(shell("sleep 3600 & sleep 3600"));
    line.wait_for_process("sleep");
    line.ask(&["pause"]);
    running.signal(libc::SIGKILL);
    line.assert_nothing_left();
}
