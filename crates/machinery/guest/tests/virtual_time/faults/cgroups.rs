//! Tests of a privileged process that moves a session's programs out of their cgroup.

use std::fs;

use crate::support::command_line::{
    CommandLine, User, cgroup_of, eventually, processes_of, state_of,
};

/// Processes that cannot be stopped must not continue while their clock stands.
#[test]
fn a_session_whose_cgroup_was_removed_says_so_and_ends_all() {
    let line = CommandLine::new("no-cgroup", User::Same);
    let mut running = line.exec(["--", "sleep", "3600"]);
    let pids = line.wait_for_process("sleep");
    let cgroup = cgroup_of(&line.name).expect("cgroups");
    let root = cgroup.parent().expect("where all begins");
    for pid in &pids {
        fs::write(root.join("cgroup.procs"), pid.to_string()).expect("as root");
    }
    let groups = fs::read_dir(&cgroup).expect("the session's").flatten();
    let hosts: Vec<_> = groups
        .map(|it| it.path())
        .filter(|it| it.is_dir())
        .collect();
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    fs::remove_dir(&hosts[0]).expect("it has no processes");

    let asked = line.try_ask(&["query"]);
    assert!(
        !asked.status.success(),
        "that there are none would be a lie: {asked:?}"
    );
    let answer = line.try_ask(&["pause"]);
    assert!(!answer.status.success(), "{answer:?}");
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(
        said.contains("removed") && said.contains("all were ended"),
        "{said}"
    );
    eventually("the end of all programs", || {
        processes_of(&line.name).is_empty()
    });
    running.wait();
    line.assert_nothing_left();
}

/// A SIGSTOP from outside affects the program and its parent; the session continues without it.
#[test]
fn a_stopped_guest_delays_no_other_guest() {
    let line = CommandLine::new("stopped-guest", User::Same);
    let script = "import time\nwhile True:\n print('tick', flush=True); time.sleep(0.01)";
    let mut running = line.exec([
        "--",
        "sh",
        "-c",
        &format!("sleep 3600 & exec python3 -c \"{script}\""),
    ]);
    let pids = line.wait_for_process("sleep");
    eventually("ticks", || line.output().contains("tick"));
    let sleeper = pids
        .into_iter()
        .find(|pid| crate::support::command_line::command_of(*pid) == "sleep");
    let sleeper = sleeper.expect("it was listed");
    // SAFETY: the process is a program of our own session.
    unsafe { libc::kill(sleeper, libc::SIGSTOP) };
    eventually("its stop", || state_of(sleeper) == Some('T'));
    line.ask(&["pause"]);
    line.ask(&["dilate", "2"]);
    line.ask(&["resume"]);
    let before = line.output().matches("tick").count();
    eventually("ticks again", || {
        line.output().matches("tick").count() > before
    });
    assert_eq!(state_of(sleeper), Some('T'), "it was not let go by us");
    running.signal(libc::SIGTERM);
    running.wait();
    line.assert_nothing_left();
}
