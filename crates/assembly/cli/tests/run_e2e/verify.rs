//! Tests of `timeloom run --verify`, and of its basis if computing takes no time: a busy simulated
//! network, programs that do not sleep, and the published case.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use timeloom_results::{EventRow, RunDirectory, compare_runs};

use crate::support::{Finished, Lab, Scenario, log_lines, prepared_python, repository};

const REPRODUCIBLE: [&str; 2] = ["time.mode=skip", "time.compute=none"];

/// Runs `timeloom run --verify`. Returns the exit code, the JSON, and the text of another such run.
/// `forget` is a file that the first of two runs leaves for the second; it is removed in between.
fn verified(scenario: &Scenario, forget: Option<&Path>) -> (i32, Value, String) {
    let lab = Lab::new(scenario);
    let run = |directory: &str, more: &[&str]| {
        // At first the file does not exist, so the error is ignored.
        let _ = forget.map(std::fs::remove_file);
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command.args(["run", "--verify", "--name", lab.name(), "-o"]);
        command.arg(lab.path().join(directory));
        command.arg(lab.path().join("scenario.toml")).args(more);
        command.args(REPRODUCIBLE.iter().flat_map(|set| ["--set", set]));
        command.output().expect("timeloom can be started")
    };
    let (json, text) = (run("json", &["--json"]), run("text", &[]));
    let said = String::from_utf8_lossy(&json.stderr).into_owned();
    let value =
        serde_json::from_slice(&json.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(json.status.code(), text.status.code(), "{said}");
    let code = text.status.code().expect("it was not killed");
    (
        code,
        value,
        String::from_utf8_lossy(&text.stdout).into_owned(),
    )
}

/// Returns a scenario with a program on host `a` that runs this Python code.
fn python(text: &str) -> Scenario {
    Scenario::lasting("600 ms").program('a', "one", &["python3", "-u", "-c", text], "")
}

#[test]
fn two_runs_that_differ_only_in_the_text_of_lines_have_their_own_exit_code() {
    // The process ID differs in each process.
    let text = "import os, time; time.sleep(0.2); print('I am', os.getpid()); time.sleep(9)";
    let (code, json, said) = verified(&python(text), None);
    assert_eq!(code, 5, "{said}");
    assert_eq!(json["reproduces"], true, "{json}");
    assert_eq!(json["difference"], Value::Null);
    let differs = &json["text"];
    assert_eq!(
        (&differs["of"], &differs["at_ns"]),
        (&"one".into(), &200_000_000.into())
    );
    let lines = ["first", "second"].map(|which| differs[which].as_str().expect("a line"));
    assert!(
        lines[0] != lines[1] && lines[0].starts_with("I am "),
        "{lines:?}"
    );
    for part in ["first", "second"] {
        assert_eq!(
            (&json[part]["end"], &json[part]["passed"]),
            (&"reached".into(), &true.into())
        );
        let directory = json[part]["directory"].as_str().expect("a path");
        assert_eq!(
            directory.ends_with("json-again"),
            part == "second",
            "{directory}"
        );
    }
    assert!(
        said.contains("the runs agree in every signal and event"),
        "{said}"
    );
    assert!(
        said.contains("the printed text differs first in texts of one at 0.2 s"),
        "{said}"
    );
}

#[test]
fn two_runs_that_agree_in_all_are_a_success() {
    let text = "import time; time.sleep(0.2); print('I am I'); time.sleep(9)";
    let (code, json, said) = verified(&python(text), None);
    assert_eq!((code, &json["text"]), (0, &Value::Null), "{said}");
}

#[test]
fn the_first_row_that_differs_is_shown_and_fails() {
    // In the second run, the second line comes 100 ms later.
    let been = tempfile::tempdir().expect("a temporary directory can be made");
    let been = been.path().join("been");
    let text = format!(
        "
import os, time
late = os.path.exists({been:?})
open({been:?}, 'w').close()
print('begun')
time.sleep(0.4 if late else 0.3)
print('later')
time.sleep(9)
"
    );
    let (code, json, said) = verified(&python(&text), Some(&been));
    assert_eq!(code, 1, "{said}");
    assert_eq!(json["reproduces"], false, "{json}");
    let difference = &json["difference"];
    assert_eq!(
        (&difference["file"], &difference["of"]),
        (&"logs".into(), &"one".into())
    );
    assert_eq!(difference["at_ns"], 300_000_000);
    assert_eq!(difference["first"], "a line");
    assert_eq!(difference["second"], "a line at 0.4 s");
    // Each run must have been successful by itself.
    assert_eq!(
        (&json["first"]["passed"], &json["second"]["passed"]),
        (&true.into(), &true.into())
    );
    let shown = "the runs DIFFER, first in logs of one at 0.3 s of virtual time:\n  first:  a line\n  second: a line at 0.4 s";
    assert!(said.contains(shown), "{said}");
}

#[test]
fn runs_that_agree_in_failing_are_no_success() {
    let text = "import sys, time; time.sleep(0.2); sys.exit(3)";
    let (code, json, said) = verified(&python(text), None);
    assert_eq!(code, 1, "{said}");
    assert_eq!(
        (&json["reproduces"], &json["first"]["passed"]),
        (&true.into(), &false.into())
    );
    assert!(
        said.contains("the runs agree") && said.contains("FAILED at 0.2 s of virtual time: one"),
        "{said}"
    );
}

/// Scenario with a backbone that ten simulated hosts and two real ones use. One of the real hosts
/// queries the other every 10 ms.
const BACKBONE: &str = r#"
schema = "timeloom/1"
name = "backbone"
seed = 3
[time]
duration = "1 s"
[network]
[[network.generate]]
name = "wan"
shape = "dumbbell"
size = 5
access = { rate = "200 Mbit/s", delay = "1 ms" }
trunk = { rate = "100 Mbit/s", delay = "1 ms", queue = 100 }
[[network.traffic]]
from = "wan-l0"
to = "wan-r0"
kind = "poisson"
rate = "60 Mbit/s"
[[network.traffic]]
from = "wan-l1"
to = "wan-r1"
kind = "cubic"
[system]
links = [
    { between = ["near", "wan-left"] },
    { between = ["far", "wan-right"] },
]
[system.hosts.far]
address = "192.168.2.2/24"
[[system.hosts.far.programs]]
name = "echo"
run = ["python3", "-u", "-S", "-c", """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 9))
print("listening")
while True:
    s.sendto(*s.recvfrom(2000))
"""]
ready = "log:listening"
[system.hosts.near]
address = "192.168.1.2/24"
[[system.hosts.near.programs]]
name = "ask"
run = ["python3", "-u", "-S", "-c", """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.1)
for count in range(50):
    time.sleep(0.01 - time.monotonic() % 0.01)
    began = time.monotonic_ns()
    s.sendto(count.to_bytes(2, "big") * 300, ("192.168.2.2", 9))
    try:
        while s.recv(2000)[:2] != count.to_bytes(2, "big"):
            pass
        print(count, "took", time.monotonic_ns() - began)
    except TimeoutError:
        print(count, "was lost")
"""]
after = ["echo"]
essential = false
"#;

fn events(run: &RunDirectory) -> Vec<EventRow> {
    let mut events = Vec::new();
    run.for_each(|row: EventRow| {
        events.push(row);
        Ok(())
    })
    .expect("the events can be read");
    events
}

/// Returns the number before `word` in the text of the run's only event of this kind.
fn number_before(run: &RunDirectory, kind: &str, word: &str) -> u64 {
    let events = events(run);
    let event = events.iter().find(|row| &*row.kind == kind);
    let text = &event.expect("there is such an event").text;
    let before = text.split(word).next().expect("the part before");
    let number = before
        .rsplit(|c: char| !c.is_ascii_digit())
        .find(|part| !part.is_empty());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{word}: {text}"))
}

/// Events in the network that produce no output must not move the clock, and output must happen at
/// the same instant in each run.
#[test]
fn three_runs_over_a_busy_simulated_network_are_the_same() {
    let labs = [(); 3].map(|()| Lab::with_text(BACKBONE));
    let runs = labs
        .each_ref()
        .map(|lab| lab.run(&REPRODUCIBLE).succeeded());
    let directories = runs.each_ref().map(Finished::directory);
    for other in &directories[1..] {
        let compared = compare_runs(&directories[0], other).expect("they can be read");
        assert_eq!(compared.difference, None);
        assert_eq!(compared.text, None);
    }
    let lines = log_lines(runs[0].path(), "ask");
    assert_eq!(lines.len(), 50, "{lines:?}");
    // The queue of the trunk differs each time, so the answers must not all be equal.
    let answers: std::collections::BTreeSet<&str> = lines
        .iter()
        .filter_map(|(_, line)| line.split("took ").nth(1))
        .collect();
    assert!(answers.len() > 25, "{answers:?}");
    for run in &directories {
        let handled = number_before(run, "summary", " events");
        let turns = number_before(run, "order", " turns");
        assert!(handled > 30_000, "{handled} events in the network");
        // Each query takes some deadlines, and four frames that leave the simulated network.
        assert!(
            turns < 3_000,
            "{turns} moves and turns for {handled} events"
        );
    }
}

/// The kernel's TCP transfers data between two programs at full speed, among the packets of a
/// hundred simulated hosts. Its output, and the instants of that output, must depend only on its
/// input.
#[test]
fn three_runs_of_the_example_with_iperf3_are_the_same() {
    let example = repository().join("examples/simnet/simnet.toml");
    let text = std::fs::read_to_string(&example).expect("it can be read");
    let short = ["time.dilation=1", "time.duration=40 ms"];
    let set = [REPRODUCIBLE, short].concat();
    let labs = [(); 3].map(|()| Lab::with_text(&text));
    let runs = labs.each_ref().map(|lab| lab.run(&set).succeeded());
    let directories = runs.each_ref().map(Finished::directory);
    for other in &directories[1..] {
        let compared = compare_runs(&directories[0], other).expect("they can be read");
        assert_eq!(compared.difference, None);
    }
    for (run, directory) in runs.iter().zip(&directories) {
        // Handshakes alone have about thirty frames.
        let frames = number_before(directory, "summary", " frames in");
        assert!(frames > 500, "{frames} frames");
        // It requests CUBIC, and has it in virtual time.
        assert!(!run.stderr.contains("TCP_CONGESTION"), "{}", run.output());
    }
}

/// A program that is woken while another one polls may compute for any length of time. No step of
/// the clock may come between its wake-up and its reaction.
#[test]
fn a_woken_program_reacts_without_a_clock_step_while_another_polls() {
    let poll = "
import select, socket, time
waiting = socket.socketpair()[0]
end = time.monotonic() + 0.02
while time.monotonic() < end:
    select.select([waiting], [], [], 0)
print('over')
time.sleep(9)
";
    let act = "
import time
time.sleep(0.0103)
for _ in range(3000):
    sum(range(1000))
print(time.monotonic_ns() // 1000)
time.sleep(9)
";
    let lab = Lab::new(
        &Scenario::lasting("100 ms")
            .program('a', "poller", &["python3", "-u", "-c", poll], "")
            .program('a', "actor", &["python3", "-u", "-c", act], ""),
    );
    let run = lab.run(&REPRODUCIBLE).succeeded();
    assert!(number_before(&run.directory(), "order", " steps") >= 10);
    let lines = log_lines(&lab.run_path(), "actor");
    let [(at_us, _)] = lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(at_us, 10_300, "{lines:?}");
}

/// Two threads that are woken by the same expiration of a timer run in an order that the kernel
/// decides, and each such case must be counted. Two threads that sleep until the same instant must
/// run one after the other.
#[test]
fn threads_woken_by_one_expiration_run_in_no_order_and_are_counted() {
    let two = |begin: &str, wait: &str| {
        let text = format!(
            "
import ctypes, select, threading, time
{begin}
end = time.monotonic() + 0.3
def work():
    while time.monotonic() < end:
        {wait}
for _ in range(2):
    threading.Thread(target=work).start()
"
        );
        let (scenario, more) = (Scenario::lasting("500 ms"), "essential = false");
        let lab = Lab::new(&scenario.program('a', "two", &["python3", "-c", &text], more));
        let run = lab.run(&REPRODUCIBLE).succeeded();
        number_before(&run.directory(), "order", " of them more")
    };
    let timer = "
libc = ctypes.CDLL(None)
timer = libc.timerfd_create(time.CLOCK_MONOTONIC, 0o4000)
every_10_ms = (ctypes.c_long * 4)(0, 10_000_000, 0, 10_000_000)
assert libc.timerfd_settime(timer, 0, every_10_ms, None) == 0
value = ctypes.c_uint64()
";
    let wait = "select.select([timer], [], []); libc.read(timer, ctypes.byref(value), 8)";
    let woken_together = two(timer, wait);
    let sleeping = two("", "time.sleep(0.01 - time.monotonic() % 0.01)");
    // The last expirations meet a thread that has ended, and the first one a thread that has not
    // begun.
    let expirations = 25;
    assert!(
        woken_together >= expirations,
        "{woken_together} of at least {expirations}"
    );
    assert!(sleeping < expirations, "{sleeping} turns were shared");
}

/// One program reads the clock until it changes, and one queries the kernel repeatedly.
#[test]
fn a_program_that_does_not_sleep_gets_small_steps_and_is_named() {
    let spin = "
import time
open('/proc/self/comm', 'w').write('spinner')
end = time.monotonic() + 0.0035
while time.monotonic() < end:
    pass
print('over', time.process_time_ns())
time.sleep(9)
";
    let poll = "
import select, socket, time
open('/proc/self/comm', 'w').write('poller')
waiting = socket.socketpair()[0]
end = time.monotonic() + 0.0035
while time.monotonic() < end:
    select.select([waiting], [], [], 0)
print('over', time.process_time_ns())
time.sleep(9)
";
    let scenario = |text: &str| {
        Scenario::lasting("100 ms").program('a', "one", &["python3", "-u", "-c", text], "")
    };
    for (text, said) in [
        (spin, "spinner has computed for 5 s at one instant"),
        (poll, "poller has polled for 100 ms at one instant"),
    ] {
        let lab = Lab::new(&scenario(text));
        let run = lab.run(&REPRODUCIBLE).succeeded();
        assert_eq!(run.stderr.matches(said).count(), 1, "{}", run.output());
        let lines = log_lines(&lab.run_path(), "one");
        // There are at least four steps of 1 ms; another program may act before this one sleeps.
        let [(at_us, ref line)] = lines[..] else {
            panic!("{lines:?}");
        };
        assert!(at_us >= 4_000 && at_us % 1_000 == 0, "{at_us} us");
        // A program that computes has used the processor for the time that passed; a program that
        // polls has used none.
        let used_ns = line.strip_prefix("over ").and_then(|ns| ns.parse().ok());
        let used_ns: i64 = used_ns.unwrap_or_else(|| panic!("{line}"));
        let [least, most] = if text == spin {
            [3_500_000, at_us * 1_000]
        } else {
            [0, 0]
        };
        assert!((least..=most).contains(&used_ns), "{at_us} us: {line}");
        assert!(number_before(&run.directory(), "order", " steps") >= 4);
        let name = said.split(' ').next().expect("the first word");
        let doubts = run.manifest().degraded_modes;
        let doubt = doubts.iter().find(|doubt| doubt.contains(name));
        assert!(
            doubt.is_some_and(|doubt| doubt.contains("may not reproduce")),
            "{doubts:?}"
        );
    }
}

/// The published case with the attack is shortened. All signals, events, and instants of lines must
/// be equal.
#[test]
fn three_runs_of_the_published_case_are_the_same() {
    prepared_python();
    timeloom_test_support::need("arpspoof", "dsniff");
    let sets = ["time.duration=7 s", "attack.dos.at=3 s"];
    let sets = [&sets[..], &REPRODUCIBLE[..], &NO_GUST[..]].concat();
    let scenario = repository().join("examples/ieee13/ieee13.toml");
    same_three_times(&scenario, &sets);
}

/// The checks are about a gust that comes later than the end of the shortened run.
const NO_GUST: [&str; 3] = [
    "check.storage-charges.assert=max(grid.storage.1.p) > 0",
    "check.sag.assert=min(grid.bus.680.v1) > 2000 from 1 s",
    "check.no-sag.assert=min(grid.bus.680.v1) > 2000 from 1 s",
];

fn same_three_times(scenario: &Path, sets: &[&str]) {
    let labs = [(); 3].map(|()| Lab::with_text(""));
    let runs = labs
        .each_ref()
        .map(|lab| lab.start_file(scenario, sets).wait().succeeded());
    let directories = runs.each_ref().map(Finished::directory);
    for other in &directories[1..] {
        let compared = compare_runs(&directories[0], other).expect("they can be read");
        assert_eq!(compared.difference, None);
    }
}
