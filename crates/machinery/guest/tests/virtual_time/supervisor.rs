//! Tests that nothing stays behind, in whatever way the supervisor ends: no frozen process, no
//! cgroup, no socket.

use std::time::Duration;

use crate::support::command_line::{
    CommandLine, User, cgroup_of, command_of, eventually, processes_of, shell, state_of,
};
use crate::support::{World, c_program};

/// Shell script with three processes that would run for an hour.
const FAMILY: &str = "sleep 3600 & sh -c 'sleep 3600; :' & wait";

#[test]
fn a_supervisor_killed_while_paused_leaves_nothing() {
    let line = CommandLine::new("killed-paused", User::Same);
    let mut running = line.exec(shell(FAMILY));
    line.wait_for_process("sleep");
    line.ask(&["pause"]);
    assert!(
        !line.left_behind().is_empty(),
        "there is something to remove"
    );
    running.signal(libc::SIGKILL);
    line.assert_nothing_left();
    assert_eq!(running.wait(), 128 + libc::SIGKILL);
}

#[test]
fn a_supervisor_killed_while_running_leaves_nothing() {
    let line = CommandLine::new("killed", User::Same);
    let running = line.exec(shell(FAMILY));
    line.wait_for_process("sleep");
    running.signal(libc::SIGKILL);
    line.assert_nothing_left();
}

#[test]
fn clean_removes_the_remains_of_a_killed_keeper() {
    let _turn = timeloom_test_support::orphans_turn();
    let line = CommandLine::new("keeper-killed", User::Same);
    let bystander = World::new("bystander", 1.0); // has no control socket
    let guest = bystander.start(["sleep", "3600"]);
    let mut running = line.exec(shell(FAMILY));
    let all = || {
        let mut all = processes_of(&line.name);
        all.retain(|&pid| pid != running.pid() && command_of(pid) != "timeloom-keeper");
        all
    };
    eventually("two shells and two sleeps", || {
        let names: Vec<String> = all().into_iter().map(command_of).collect();
        names.len() == 4 && names.iter().filter(|name| *name == "sleep").count() == 2
    });
    line.ask(&["pause"]);
    let frozen = all();
    // SAFETY: the process is the reaper of a session of ours.
    assert_eq!(unsafe { libc::kill(running.keeper(), libc::SIGKILL) }, 0);
    running.signal(libc::SIGKILL);
    assert_eq!(running.wait(), 128 + libc::SIGKILL);
    std::thread::sleep(Duration::from_millis(300));
    assert!(
        !line.left_behind().is_empty(),
        "no process was left to remove anything"
    );

    let output = line
        .command(["clean", "--json"])
        .output()
        .expect("running timeloom");
    assert!(output.status.success());
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    line.assert_nothing_left();
    let listed = |key: &str, text: &str| {
        found[key]
            .as_array()
            .expect("a list")
            .iter()
            .any(|one| one.to_string().contains(text))
    };
    for pid in frozen {
        assert!(
            listed("processes", &pid.to_string()),
            "{pid} is not listed in {found}"
        );
    }
    assert!(listed("sockets", &line.name), "{found}");

    // Another session, whose supervisor lives, was not affected.
    assert!(
        !listed("processes", &guest.guest().pid().to_string()),
        "{found}"
    );
    assert_eq!(
        guest.guest().wait_for(Some(Duration::from_millis(100))),
        None,
        "the bystander runs"
    );
}

#[test]
fn sigterm_ends_session_and_programs() {
    let line = CommandLine::new("sigterm", User::Same);
    let mut running = line.exec(shell(FAMILY));
    line.wait_for_process("sleep");
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait(), 128 + libc::SIGTERM);
    line.assert_nothing_left();
}

/// As with Ctrl-C in a terminal, the program ends by the signal, and timeloom reports that.
#[test]
fn sigint_from_the_terminal_is_the_programs() {
    let line = CommandLine::new("sigint", User::Same);
    let mut running = line.exec(["--", "sleep", "3600"]);
    line.wait_for_process("sleep");
    running.signal_group(libc::SIGINT);
    assert_eq!(running.wait(), 128 + libc::SIGINT);
    line.assert_nothing_left();
}

#[test]
fn a_program_that_handles_sigint_decides_itself() {
    let line = CommandLine::new("sigint-handled", User::Same);
    let mut running = line.exec(shell("trap 'exit 7' INT; while :; do sleep 0.1; done"));
    line.wait_for_process("sleep");
    running.signal_group(libc::SIGINT);
    assert_eq!(running.wait(), 7);
    line.assert_nothing_left();
}

#[test]
fn background_processes_end_with_the_session() {
    let line = CommandLine::new("background", User::Same);
    // The program ends only after the exec of the process that it leaves, so that the name of that
    // process is known.
    let mut running = line.exec(shell(
        "setsid sleep 3600 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do sleep 0.01; done; exit 5",
    ));
    assert_eq!(running.wait(), 5);
    line.assert_nothing_left();
    assert!(
        line.output().contains("ending with the session: sleep"),
        "{}",
        line.output()
    );
}

#[test]
fn dropping_a_session_leaves_nothing() {
    for paused in [false, true] {
        let world = World::new("dropped", 1.0);
        let name = world.session.name().to_owned();
        let family = world.start(["sh", "-c", FAMILY]);
        let mut waits = world.start_at_gate(&[c_program("waits").into()], 60_000, &[]);
        waits.wait_for("ready");
        world.gate.open();
        eventually("the processes", || world.pids().len() > 10);
        if paused {
            world.session.pause().expect("pausing");
        }
        drop(world);
        eventually("their end", || processes_of(&name).is_empty());
        eventually("the cgroup's removal", || {
            !cgroup_of(&name).is_some_and(|path| path.exists())
        });
        assert_eq!(family.guest().wait(), 128 + libc::SIGKILL);
        assert_eq!(waits.guest().wait(), 128 + libc::SIGKILL);
    }
}

#[test]
fn a_paused_session_stands_and_starts_nothing() {
    let line = CommandLine::new("start-paused", User::Same);
    let mut running = line.exec([
        "--paused",
        "--",
        "sh",
        "-c",
        "echo begun; sleep 0.1; exit 3",
    ]);
    eventually("the session", || line.try_ask(&["query"]).status.success());
    std::thread::sleep(Duration::from_millis(300));
    // (If FUSE is missing, this has been reported by then.)
    let said = line.output();
    assert!(
        !said.contains("begun"),
        "its first instruction waits for the clock: {said}"
    );
    let status = line.ask(&["query"]);
    assert_eq!(
        (status["virtual_ns"].as_i64(), status["paused"].as_bool()),
        (Some(0), Some(true))
    );
    line.ask(&["resume"]);
    assert_eq!(running.wait(), 3);
    assert_eq!(line.output(), "begun\n");
}

#[test]
fn pause_stops_busy_processes_and_resume_lets_them_go() {
    let line = CommandLine::new("busy", User::Same);
    let mut running = line.exec(shell(
        "i=0; while [ $i -lt 1000000000 ]; do i=$((i+1)); done",
    ));
    let pids = line.wait_for_process("sh");
    line.ask(&["pause"]);
    let used =
        |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it lives");
    let before: Vec<String> = pids.iter().map(used).collect();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        pids.iter().map(used).collect::<Vec<_>>(),
        before,
        "it computed while paused"
    );
    line.ask(&["resume"]);
    eventually("computing again", || {
        pids.iter().map(used).collect::<Vec<_>>() != before
    });
    assert!(pids.iter().all(|&pid| state_of(pid) != Some('T')));
    running.signal(libc::SIGTERM);
    running.wait();
    line.assert_nothing_left();
}
