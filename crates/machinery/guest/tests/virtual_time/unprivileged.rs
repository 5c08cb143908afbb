//! Without root everything works the same; only freezing is by SIGSTOP.

use std::time::Duration;

use timeloom_testing::need_root;

use crate::support::command_line::{CommandLine, User, eventually, shell, state_of};
use crate::support::{ATTEMPTS, Difference, Lines, PAUSE, c_program, differences, natively};

/// The programs under `timeloom exec` of another user, with `meanwhile` acting
/// on the session once they have begun.
fn as_nobody(program: &str, wait_ms: u32, last_dilation: f64, meanwhile: impl Fn(&CommandLine)) {
    need_root();
    for attempt in 1.. {
        let differences = once_as_nobody(program, wait_ms, last_dilation, &meanwhile);
        let is_only_late = differences.iter().all(Difference::is_lateness);
        if differences.is_empty() {
            return;
        }
        // A fault of ours is there every time; a busy machine's lateness is not.
        assert!(is_only_late && attempt < ATTEMPTS, "{differences:#?}");
    }
}

fn once_as_nobody(
    program: &str,
    wait_ms: u32,
    last_dilation: f64,
    meanwhile: impl Fn(&CommandLine),
) -> Vec<Difference> {
    let native = natively(c_program(program), wait_ms);
    let line = CommandLine::new(program, User::Nobody);
    let copy = line.scratch.copy(&c_program(program));
    let gate = crate::support::Gate::new(program);
    let argv = gate.arguments(&[copy.into()], wait_ms, &[]);
    let mut running = line.exec(["--quiet", "--"].map(Into::into).into_iter().chain(argv));
    eventually("the program", || line.output().contains("ready\n"));
    gate.open();
    meanwhile(&line);
    let status = running.wait();
    let printed: Vec<String> = line.output().lines().map(str::to_owned).collect();
    assert_eq!(status, 0, "{printed:#?}");
    let mut differences = differences(&native, &Lines::parse(&printed), last_dilation, PAUSE);
    // The one difference, and a documented one: a parent sees its child stopped.
    differences.retain(|one| !one.text().starts_with("stops_unseen:"));
    line.expect_nothing_left();
    differences
}

#[test]
fn waits_exclude_a_pause_without_root() {
    as_nobody("waits", 800, 1.0, |line| {
        std::thread::sleep(Duration::from_millis(300));
        line.ask(&["pause"]);
        let pids = line.wait_for_process("waits.dynamic");
        assert!(
            pids.len() > 30 && pids.iter().all(|&pid| state_of(pid) == Some('T')),
            "all are stopped by signal"
        );
        std::thread::sleep(Duration::from_secs(1));
        line.ask(&["resume"]);
    });
}

#[test]
fn queues_and_timers_exclude_a_pause_without_root() {
    for program in ["queues", "posix_timers"] {
        as_nobody(program, 800, 1.0, |line| {
            std::thread::sleep(Duration::from_millis(300));
            line.ask(&["pause"]);
            std::thread::sleep(Duration::from_secs(1));
            line.ask(&["resume"]);
        });
    }
}

#[test]
fn waits_follow_a_change_of_rate_without_root() {
    as_nobody("waits", 800, 0.5, |line| {
        line.ask(&["dilate", "4"]);
        std::thread::sleep(Duration::from_millis(400));
        line.ask(&["dilate", "0.5"]);
    });
}

#[test]
fn process_trees_survive_pauses_without_root() {
    as_nobody("processes", 2_000, 1.0, |line| {
        let virtual_ms = |status: serde_json::Value| {
            status["virtual_ns"].as_i64().expect("a number") / 1_000_000
        };
        let begun = virtual_ms(line.ask(&["query"]));
        for turn in 0..40 {
            // Not to its very end, when there would be nobody to ask.
            if virtual_ms(line.ask(&["pause"])) > begun + 1_200 {
                break;
            }
            std::thread::sleep(Duration::from_millis(turn % 4));
            line.ask(&["resume"]);
        }
        line.ask(&["resume"]);
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
    line.expect_nothing_left();
}
