//! A plant is stopped, or the interface of a host is removed.

use std::time::Duration;

use crate::support::{Lab, POLL, Scenario, patiently};

#[test]
fn a_stopped_plant_is_named_with_its_time_limit() {
    let scenario = Scenario::lasting("600 s")
        .program('b', "client", POLL, "")
        .plant_with("{}", "timeout = \"500 ms\"");
    let lab = Lab::new(&scenario);
    let mut run = lab.start(&[]);
    run.wait_until(0.2);
    let is_plant = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(8).any(|word| word == b"plant.py")
    };
    let mut plants = Vec::new();
    let found = patiently(Duration::from_secs(60), || {
        plants = lab.processes();
        plants.retain(is_plant);
        plants.len() == 1
    });
    assert!(found, "{plants:?}");
    // SAFETY: the plant of our own run.
    unsafe { libc::kill(plants[0], libc::SIGSTOP) };
    run.wait().blames(&["world", "500 ms"]);
    lab.assert_nothing_left();
}

/// Programs are root in their own network. If one removes an interface, the run must not end.
#[test]
fn a_host_that_takes_its_interface_away_harms_itself_alone() {
    let take = "ip link del eth0 && echo taken && sleep 1000";
    let scenario = Scenario::lasting("1 s")
        .program('a', "vandal", &["sh", "-c", take], "ready = \"log:taken\"")
        .program('b', "client", POLL, "after = [\"vandal\"]")
        .plant("{}")
        .and("[[capture]]\nlink = [\"a\", \"s1\"]\n");
    let lab = Lab::new(&scenario);
    let run = lab.run(&[]).succeeded();
    lab.assert_nothing_left();
    assert_eq!(run.manifest().virtual_duration.as_ns(), 1_000_000_000);
    let log = std::fs::read_to_string(lab.run_path().join("logs/client.log")).expect("a log");
    assert!(log.contains("sample"), "{log}");
}
