//! Memory runs out: the kernel's out-of-memory killer ends a guest, a plant, or a supervisor.

use std::fs;
use std::time::Duration;

use timeloom_test_support::MemoryLimit;

use crate::endings::{assert_recorded, assert_recovered, long, under_way, wait_for_signals};
use crate::support::{Finished, Lab, Running, Scenario, patiently};

const POLL: &[&str] = &["python3", "poll.py", "10.0.0.10", "0.02"];

/// Memory that suffices for the processes until they allocate more, in bytes.
const ENOUGH: u64 = 96 << 20;

/// Returns the only process of the run whose command contains this word.
fn process_of(lab: &Lab, word: &str) -> u32 {
    let has = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    let mut found = Vec::new();
    let one = patiently(Duration::from_secs(60), || {
        found = lab.processes();
        found.retain(|pid| has(pid));
        found.len() == 1
    });
    assert!(one, "{word}: {found:?}");
    found[0] as u32
}

/// Makes the process run out of memory.
fn starve(lab: &Lab, run: Running<'_>, word: &str) -> Finished {
    let limit = MemoryLimit::of(process_of(lab, word));
    limit.set(ENOUGH);
    fs::write(lab.path().join("eat"), "").expect("ours");
    run.wait()
}

#[test]
fn a_guest_that_is_out_of_memory_is_named_with_the_signal() {
    let scenario = Scenario::lasting("600 s")
        .program(
            'a',
            "eater",
            &["python3", "eat.py"],
            "ready = \"log:hungry\"",
        )
        .program('b', "client", POLL, "after = [\"eater\"]")
        .plant("{}");
    let lab = Lab::new(&scenario);
    let mut run = lab.start(&[]);
    run.wait_for_line("client", "sample");
    run.wait_until(0.4);
    let run = starve(&lab, run, "eat.py").blames(&["eater", "signal 9"]);
    lab.assert_nothing_left();
    assert_recorded(&run.directory());
}

#[test]
fn a_plant_that_is_out_of_memory_is_named_with_the_signal() {
    let scenario = Scenario::lasting("600 s")
        .program('b', "client", POLL, "")
        .plant_with("{ misdeed = \"eat\", after_ns = 0 }", "timeout = \"60 s\"");
    let lab = Lab::new(&scenario);
    let mut run = lab.start(&[]);
    run.wait_for_line("client", "sample");
    starve(&lab, run, "plant.py").blames(&["world", "died", "signal: 9"]);
    lab.assert_nothing_left();
}

/// The supervisor's reaper is another process, and must remove everything.
#[test]
fn records_of_a_supervisor_that_is_out_of_memory_are_kept() {
    let lab = long();
    let run = under_way(&lab, false);
    wait_for_signals(&lab);
    let limit = MemoryLimit::of(run.pid() as u32);
    limit.set(0);
    // Each request makes the supervisor allocate a little memory.
    let dead = patiently(Duration::from_secs(120), || run.control("query").is_err());
    assert!(dead, "it lives by no memory");
    let run = run.wait();
    assert_eq!(run.code, 128 + libc::SIGKILL, "{}", run.output());
    lab.assert_nothing_left();
    assert_recovered(&lab);
    assert_recorded(&run.directory());
}
