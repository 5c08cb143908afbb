//! Processes that leave their parent must not escape from the run.

use crate::support::{Lab, POLL, Scenario, patiently};

use std::time::Duration;

fn sleepers(lab: &Lab) -> usize {
    let is_one = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "sleep")
    };
    lab.processes().iter().filter(|pid| is_one(pid)).count()
}

/// The process has left the plant's process group, so only the cgroup contains it.
#[test]
fn a_child_of_a_plant_in_its_own_session_ends_with_the_run() {
    let scenario = Scenario::lasting("1 s")
        .program('b', "client", POLL, "")
        .plant("{ stray = true }");
    let lab = Lab::new(&scenario);
    lab.run(&[]).succeeded();
    lab.assert_nothing_left();
}

#[test]
fn a_child_of_a_plant_in_its_own_session_ends_with_a_killed_supervisor() {
    let scenario = Scenario::lasting("600 s")
        .program('b', "client", POLL, "")
        .plant("{ stray = true }");
    let lab = Lab::new(&scenario);
    let mut run = lab.start(&[]);
    run.wait_until(0.2);
    let there = || sleepers(&lab) == 1;
    assert!(
        patiently(Duration::from_secs(60), there),
        "{:?}",
        lab.left()
    );
    run.signal(libc::SIGKILL);
    assert_eq!(run.wait().code, 128 + libc::SIGKILL);
    lab.assert_nothing_left();
}
