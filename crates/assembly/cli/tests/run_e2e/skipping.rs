//! Actions of a program are events of the session: time must not skip over its end, its output, or
//! the instant at which it is ready.
//!
//! Nothing else is due for an hour in these runs. If an event is recorded more than a minute after
//! it happened, time has skipped over it, because no test takes that long.

use std::fmt::Write as _;

use timeloom_results::EventRow;

use crate::support::{Finished, Lab, Scenario, log_lines};

const SKIP: &[&str] = &["time.mode=skip"];

/// Value of `time.time_ns()` at virtual zero in these scenarios, in ns.
const START_NS: i64 = 1_559_520_000_000_000_000;

const MINUTE_NS: i64 = 60_000_000_000;

fn event(run: &Finished, source: &str, kind: &str) -> EventRow {
    let events = run.directory().events().expect("the events can be read");
    let mut found = events
        .into_iter()
        .filter(|row| &*row.source == source && &*row.kind == kind);
    let event = found.next().expect("it was recorded");
    assert!(found.next().is_none(), "{source} {kind} was recorded twice");
    event
}

/// Returns the instant that `mortal.py` printed, in ns.
fn said_ns(run: &Finished, program: &str) -> i64 {
    let log = std::fs::read_to_string(run.path().join("logs").join(format!("{program}.log")));
    let log = log.expect("it can be read");
    let said = log.split_once("said ").expect("it said something").1;
    said.trim().parse::<i64>().expect("a number") - START_NS
}

#[test]
fn a_program_that_fails_at_once_fails_the_run() {
    let lab = Lab::new(&Scenario::lasting("3600 s").program('a', "victim", &["false"], ""));
    let run = lab.run(SKIP).blames(&["victim", "status 1"]);
    let at_ns = event(&run, "victim", "end").t_virtual.as_ns();
    assert!(at_ns < MINUTE_NS, "its end was recorded at {at_ns} ns");
}

/// The program ends at random instants, from a fixed seed.
#[test]
fn an_end_is_recorded_at_its_instant_and_after_the_last_output() {
    let mut seed = 20_261_122_u64;
    let mut scenario = Scenario::lasting("3600 s");
    let mut names = Vec::new();
    for (number, status) in ["0", "3", "-11", "-9", "1", "0"].iter().enumerate() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let after_s = format!("{}.{:06}", 200 * number, (seed >> 33) % 1_000_000);
        let name = format!("victim-{number}");
        let run = ["python3", "mortal.py", &after_s, status];
        let host = if number % 2 == 0 { 'a' } else { 'b' };
        scenario = scenario.program(host, &name, &run, "essential = false");
        names.push(name);
    }
    let lab = Lab::new(&scenario);
    let run = lab.run(SKIP).succeeded();
    let mut told = String::new();
    for name in &names {
        let said_ns = said_ns(&run, name);
        let end_ns = event(&run, name, "end").t_virtual.as_ns();
        let stamp_us = log_lines(run.path(), name)[0].0;
        writeln!(told, "{name}: {said_ns} {stamp_us} {end_ns}").expect("a String");
        // A timestamp is in whole microseconds.
        assert!(
            stamp_us >= said_ns / 1000 && stamp_us <= end_ns / 1000,
            "{told}"
        );
        assert!(said_ns <= end_ns && end_ns < said_ns + MINUTE_NS, "{told}");
    }
}

/// A child process that ends is removed from the kernel's lists before its parent is woken. Whether
/// a pause happens in between depends on the machine: with busy processes it did once in some
/// thousand runs.
#[test]
fn no_time_passes_while_a_child_ends() {
    let forks = "
import os, time
for number in range(2000):
    begun = time.monotonic_ns()
    child = os.fork()
    if child == 0:
        os.nice(19)
        os._exit(0)
    os.waitpid(child, 0)
    if time.monotonic_ns() != begun:
        print('time passed by child', number)
print('done')
time.sleep(99)
";
    let ticks = "import time\nwhile True: time.sleep(0.01)";
    let lab = Lab::new(
        &Scenario::lasting("1 s")
            .program('a', "forks", &["python3", "-u", "-c", forks], "")
            .program('a', "ticks", &["python3", "-c", ticks], ""),
    );
    let run = lab
        .run(&["time.mode=skip", "time.compute=none"])
        .succeeded();
    assert_eq!(log_lines(run.path(), "forks"), [(0, "done".to_owned())]);
}

#[test]
fn a_program_starts_when_the_one_before_is_ready() {
    let ready = "ready = \"log:said\"\nready_timeout = \"3000 s\"";
    let waits = "import os, time; time.sleep(100); os.write(1, b'said\\n'); time.sleep(9999)";
    let lab = Lab::new(
        &Scenario::lasting("3600 s")
            .program('a', "first", &["python3", "-c", waits], ready)
            .program(
                'b',
                "second",
                &["python3", "mortal.py", "0", "0"],
                "after = [\"first\"]\nessential = false",
            ),
    );
    let run = lab.run(SKIP).succeeded();
    let ready_ns = event(&run, "first", "ready").t_virtual.as_ns();
    let printed_us = log_lines(run.path(), "first")[0].0;
    let second_ns = said_ns(&run, "second");
    assert!(printed_us >= 100_000_000 && printed_us <= ready_ns / 1000);
    assert!(ready_ns <= second_ns, "{ready_ns} {second_ns}");
    assert!(second_ns < 100_000_000_000 + MINUTE_NS, "{second_ns}");
}

/// The program must not be given up later either: its limit is an instant at which an event is due.
#[test]
fn a_program_that_does_not_get_ready_is_given_up_at_its_limit() {
    let lab = Lab::new(&Scenario::lasting("3600 s").program(
        'a',
        "victim",
        &["sleep", "9999"],
        "ready = \"tcp:4711\"\nready_timeout = \"1000 s\"",
    ));
    let run = lab.run(SKIP).blames(&["victim", "not ready", "1000"]);
    let at_ns = run.manifest().virtual_duration.as_ns();
    assert!(at_ns > 1_000_000_000_000, "{at_ns}");
    assert!(at_ns < 1_000_000_000_000 + MINUTE_NS, "{at_ns}");
}

/// In every mode, a failure that is reported after the end of the run was reached must count.
#[test]
fn a_failure_at_the_instant_of_the_end_fails_the_run() {
    for mode in ["virtual", "skip"] {
        // The run is slow, so that even on a busy machine the programs have started in time.
        let sets = [&*format!("time.mode={mode}"), "time.dilation=10"];
        let seen = (0..6).any(|_| {
            let lab = Lab::new(&Scenario::lasting("1 s").program(
                'a',
                "victim",
                &["python3", "mortal.py", "0.95", "3"],
                "",
            ));
            let run = lab.run(&sets);
            let ended = run.directory().events().expect("the events can be read");
            let ended = ended.iter().any(|row| &*row.kind == "end");
            assert_eq!(run.code != 0, ended, "{mode}: {}", run.output());
            ended
        });
        assert!(seen, "{mode}: its end was never there before the run's");
    }
}
