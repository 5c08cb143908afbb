//! Tests that a supervisor that may open no more files reports the status, or that it cannot.

use std::fs;
use std::os::unix::net::UnixStream;

use crate::support::command_line::{
    CommandLine, Running, User, cgroup_of, eventually, shell, state_of,
};

/// Returns the highest descriptor number that a process uses, plus one.
fn files_of(pid: i32) -> u64 {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("it lives")
        .flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    numbers.max().expect("it has some open") + 1
}

fn pids(status: &serde_json::Value) -> Vec<i64> {
    let all = status["processes"].as_array().expect("a list");
    let mut pids: Vec<i64> = all.iter().filter_map(|one| one["pid"].as_i64()).collect();
    pids.sort_unstable();
    pids
}

fn assert_all_stand(line: &CommandLine, programs: &[i64]) {
    match line.user {
        User::Same => {
            let path = cgroup_of(&line.name)
                .expect("cgroups")
                .join("cgroup.events");
            let events = fs::read_to_string(path).expect("the session's");
            assert!(events.contains("frozen 1"), "{events}");
        }
        User::Nobody => {
            for &pid in programs {
                assert_eq!(state_of(pid as i32), Some('T'), "process {pid}");
            }
        }
    }
}

/// Clients can connect as long as there are descriptors. After that none can.
fn without_files(user: User) {
    let line = CommandLine::new("no-files", user);
    let mut running: Running = line.exec(shell("sleep 3600 & sleep 3600 & wait"));
    let supervisor = running.pid();
    eventually("three programs", || {
        let answer = line.try_ask(&["query"]);
        serde_json::from_slice(&answer.stdout).is_ok_and(|status| pids(&status).len() == 3)
    });
    let all = pids(&line.ask(&["query"]));
    line.limit(supervisor, "nofile", files_of(supervisor));
    // For five seconds, idle clients take the remaining descriptors.
    let idle: Vec<UnixStream> = (0..64)
        .filter_map(|_| UnixStream::connect(line.socket()).ok())
        .collect();
    assert!(!idle.is_empty());
    let answer = line.try_ask(&["query"]);
    if answer.status.success() {
        let status = serde_json::from_slice(&answer.stdout).expect("JSON");
        assert_eq!(pids(&status), all, "a part of them, or none");
    } else {
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(
            said.contains("Too many open files") || said.contains("answer"),
            "{said}"
        );
    }
    drop(idle);
    // No descriptor can be opened or accepted: the session answers no request, and reports nothing
    // false.
    line.limit(supervisor, "nofile", 3);
    let answer = line.try_ask(&["query"]);
    assert!(!answer.status.success(), "{answer:?}");
    line.limit(supervisor, "nofile", files_of(supervisor) + 12);
    let answer = line.try_ask(&["pause"]);
    if answer.status.success() {
        assert_all_stand(&line, &all);
        line.limit(supervisor, "nofile", 1 << 10);
        assert_eq!(pids(&line.ask(&["query"])), all);
        line.ask(&["resume"]);
        running.signal(libc::SIGTERM);
    } else {
        // The session has failed closed.
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(said.contains("all were ended"), "{said}");
    }
    running.wait();
    line.assert_nothing_left();
}

#[test]
fn a_supervisor_without_descriptors_never_reports_an_empty_session() {
    without_files(User::Same);
}

#[test]
fn a_supervisor_without_descriptors_never_reports_an_empty_session_without_root() {
    without_files(User::Nobody);
}
