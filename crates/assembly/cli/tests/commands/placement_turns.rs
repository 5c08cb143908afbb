//! Scenarios over agents in which computing takes no time: the agents act in turns, and the results
//! are those of one machine.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use timeloom_results::{RunDirectory, compare_runs};
use timeloom_test_support::wait_for;

use crate::placement::ordered;
use crate::placement_simulated;
use crate::support::machines::{Machines, let_go};
use crate::support::place;

/// Settings with which the clocks of all agents move from event to event.
const TURNS: [&str; 4] = ["--set", "time.mode=skip", "--set", "time.compute=none"];

/// Program that polls the clock, so that time moves in steps while it computes.
const POLLS: &str = "import time\nbegan = time.monotonic()\nwhile time.monotonic() < began + 0.05: pass\n\
                     print('it is later')\ntime.sleep(1000)\n";

/// More programs: one of each host prints at the same instants as one of the other, one polls, and
/// one waits for a program of the other agent that is ready late.
const MORE: &str = r#"
[[system.hosts.meter.programs]]
name = "ticks-a"
run = ["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; date +%s.%N; done; sleep 100"]
[[system.hosts.reader.programs]]
name = "ticks-b"
run = ["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; date +%s.%N; done; sleep 100"]
[[system.hosts.reader.programs]]
name = "late"
run = ["/bin/sh", "-c", "sleep 2.5; echo up; sleep 100"]
ready = "log:up"
[[system.hosts.meter.programs]]
name = "follower"
run = ["/bin/sh", "-c", "date +%s.%N; sleep 100"]
after = ["late"]
[[system.hosts.meter.programs]]
name = "polls"
run = ["/usr/bin/python3", "polls.py"]
"#;

/// Writes a scenario of two agents, whose links have no rate: a link of the kernel that is
/// saturated holds frames back in real time.
fn scenario(machines: &Machines, more: &str) -> PathBuf {
    let path = machines.scenario(more);
    let text = fs::read_to_string(&path).expect("the scenario");
    fs::write(&path, text.replace(", rate = \"10 Mbit/s\"", "")).expect("a file");
    path
}

/// Runs a scenario to its end, and moves its results to the directory `name`.
fn results(machines: &Machines, scenario: &Path, name: &str) -> RunDirectory {
    let run = machines.start(scenario, &TURNS);
    ended(machines, run, name)
}

fn ended(machines: &Machines, run: Child, name: &str) -> RunDirectory {
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(0), "{json} {said}");
    let kept = machines.scratch.path(name);
    fs::rename(machines.scratch.path("results"), &kept).expect("a directory");
    RunDirectory::open(kept).expect("a run")
}

/// Returns the scenario without its placement.
fn alone(scenario: &Path) -> PathBuf {
    let text = fs::read_to_string(scenario).expect("the scenario");
    let (head, rest) = text.split_once("[placement]").expect("the agents");
    // The programs that a test adds follow the placement.
    let more = rest.split_once("[[system").map(|(_, more)| more);
    let more = more.map_or(String::new(), |more| format!("[[system{more}"));
    let path = scenario.with_file_name("alone.toml");
    fs::write(&path, format!("{head}{more}")).expect("a file");
    path
}

fn answers(results: &RunDirectory) -> Vec<i64> {
    let log = place(results).join("logs/reader.log");
    let log = fs::read_to_string(log).expect("a log");
    let words = log.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Hosts share a switch, on links of the kernel.
#[test]
fn agents_in_turns_have_the_results_of_one_machine() {
    let machines = Machines::new("turns", 3);
    let agents = machines.serving(3);
    let spread = scenario(&machines, MORE);
    fs::write(spread.with_file_name("polls.py"), POLLS).expect("a file");
    let one = results(&machines, &alone(&spread), "one");
    let answers = answers(&one);
    assert!(answers.len() > 100, "{answers:?}");
    ordered(answers.into_iter());

    let text = fs::read_to_string(&spread).expect("the scenario");
    let third = r#"c = { address = "10.9.0.3:5500" }"#;
    let three = text.replace(r#"s1 = "b""#, r#"s1 = "c""#);
    let three = three.replace("[placement.nodes]", &format!("{third}\n[placement.nodes]"));
    let over_three = spread.with_file_name("three.toml");
    fs::write(&over_three, three).expect("a file");
    for (scenario, name) in [(&spread, "two"), (&over_three, "three"), (&spread, "again")] {
        let together = results(&machines, scenario, name);
        let compared = compare_runs(&one, &together).expect("readable");
        assert_eq!(compared.difference, None, "{name}");
        assert_eq!(compared.text, None, "{name}");
    }
    drop(agents);
}

/// Each agent has an engine of the network.
#[test]
fn a_simulated_network_over_agents_in_turns_has_the_results_of_one_machine() {
    let machines = Machines::new("turnsim", 2);
    let agents = machines.serving(2);
    let spread = placement_simulated::scenario(&machines);
    let text = fs::read_to_string(&spread).expect("the scenario");
    let text = text.replace("encrypt = true", "mode = \"exact\"");
    // The kernel decides the order of two programs that start at one instant.
    let text = text.replace(
        "after = [\"meter6\"]",
        "after = [\"meter6\"]\nstart = \"7 ms\"",
    );
    fs::write(&spread, text).expect("a file");
    let one = results(&machines, &alone(&spread), "one");
    assert!(answers(&one).len() > 100, "too few answers");
    for name in ["two", "again"] {
        let together = results(&machines, &spread, name);
        let compared = compare_runs(&one, &together).expect("readable");
        assert_eq!(compared.difference, None, "{name}");
        assert_eq!(compared.text, None, "{name}");
        let series = together.series(&["net.flow.bulk.throughput"]);
        let series = series.expect("readable");
        assert!(series[0].samples.iter().any(|(_, value)| *value > 0.0));
    }
    drop(agents);
}

/// A simulator grants the time of all agents at the first one. At each end of a step, no agent has
/// passed it.
#[test]
fn the_time_of_all_agents_is_granted_at_the_first() {
    let machines = Machines::new("turngrant", 2);
    let agents = machines.serving(2);
    let spread = scenario(&machines, "");
    let one = results(&machines, &alone(&spread), "one");
    let more = [
        "--set",
        "time.mode=stepped",
        "--set",
        "time.compute=none",
        "--set",
        "time.stepped.skip=true",
    ];
    let run = machines.start(&spread, &more);
    let steps = machines.grant_steps(10_000_000_000, false);
    assert_eq!(steps, 102, "10 s in steps of 99 ms");
    let granted = ended(&machines, run, "granted");
    let compared = compare_runs(&one, &granted).expect("readable");
    assert_eq!(compared.text, None);
    drop(agents);
}

/// Returns the instant of a session's clock if it is paused.
fn paused_at(machines: &Machines, index: usize) -> Option<i64> {
    let status = machines.query(index);
    status["virtual_ns"]
        .as_i64()
        .filter(|_| status["paused"] == true)
}

/// Starts a scenario that lasts for long, and waits until it runs.
fn endless(machines: &Machines) -> Child {
    let scenario = scenario(machines, "");
    let text = fs::read_to_string(&scenario).expect("the scenario");
    let text = text.replace(r#"duration = "10 s""#, r#"duration = "400000 s""#);
    fs::write(&scenario, text).expect("a file");
    let run = machines.start(&scenario, &TURNS);
    wait_for("it runs", || {
        let virtual_ns = machines.query(1)["virtual_ns"].as_i64()?;
        (virtual_ns > 500_000_000).then_some(())
    });
    run
}

/// A user's commands at one agent act on all, which stop at the same instant.
#[test]
fn a_pause_and_a_step_at_one_agent_are_those_of_all() {
    let machines = Machines::new("turnstep", 2);
    let agents = machines.serving(2);
    let mut run = endless(&machines);
    let (hold, at) = machines.hold(0);
    let there = wait_for("the other is paused", || paused_at(&machines, 1));
    assert!(there >= at, "{there} {at}");
    assert_eq!(paused_at(&machines, 0), Some(at));
    let_go(hold);
    wait_for("both go on", || {
        let virtual_ns = |index: usize| machines.query(index)["virtual_ns"].as_i64();
        (virtual_ns(0)? > there + 2_000_000_000 && virtual_ns(1)? > there).then_some(())
    });
    machines.command(1, &["pause"]);
    wait_for("all are paused", || paused_at(&machines, 0));
    for step_ms in [1, 10, 1_000, 100_000] {
        let before = paused_at(&machines, 1).expect("it is paused");
        machines.command(1, &["step", &format!("{step_ms} ms")]);
        let until = before + step_ms * 1_000_000;
        assert_eq!(paused_at(&machines, 1), Some(until));
        let there = wait_for("the other is paused", || paused_at(&machines, 0));
        assert!(there <= until, "{there} {until}");
    }
    let until = paused_at(&machines, 1).expect("it is paused") + 7_000_000_000;
    let instant = format!("{}.{:09} s", until / 1_000_000_000, until % 1_000_000_000);
    machines.command(1, &["run-until", &instant]);
    assert_eq!(paused_at(&machines, 1), Some(until));
    machines.command(1, &["resume"]);
    wait_for("all go on", || {
        let virtual_ns = machines.query(0)["virtual_ns"].as_i64()?;
        (virtual_ns > until + 2_000_000_000).then_some(())
    });
    let _ = run.kill();
    let _ = run.wait();
    drop(agents);
}

/// A program that a user starts on an agent without events of its own sleeps in virtual time.
#[test]
fn a_shell_on_an_idle_agent_has_turns() {
    let machines = Machines::new("turnshell", 2);
    let agents = machines.serving(2);
    let scenario = scenario(&machines, "");
    let text = fs::read_to_string(&scenario).expect("the scenario");
    let text = text.replace(r#"duration = "10 s""#, r#"duration = "400000 s""#);
    let ticks = r#"run = ["/bin/sh", "-c", "while :; do sleep 0.1; done"]"#;
    let text = text.replace(r#"run = ["/usr/bin/python3", "reader.py", "meter"]"#, ticks);
    fs::write(&scenario, text).expect("a file");
    let mut run = machines.start(&scenario, &TURNS);
    wait_for("it runs", || {
        let virtual_ns = machines.query(1)["virtual_ns"].as_i64()?;
        (virtual_ns > 500_000_000).then_some(())
    });
    let mut shell = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["shell", "--name", &machines.session(0), "meter"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("timeloom shell");
    let mut input = shell.stdin.take().expect("its input");
    let typed = input.write_all(b"date +%s%N; sleep 1; date +%s%N; exit\n");
    typed.expect("it reads");
    wait_for("the shell ends", || {
        shell.try_wait().expect("our own child")
    });
    let output = shell.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stdout);
    let instants: Vec<i64> = said.lines().filter_map(|line| line.parse().ok()).collect();
    let [before, after] = instants[..] else {
        panic!("{said}");
    };
    assert!(after - before >= 1_000_000_000, "{said}");
    let _ = run.kill();
    let _ = run.wait();
    drop(agents);
}

/// The run stops on the agent that lives, which names the other.
#[test]
fn an_agent_that_dies_in_turns_stops_the_run() {
    let machines = Machines::new("turndies", 2);
    let mut agents = machines.serving(2);
    let run = endless(&machines);
    drop(agents.pop());
    let output = run.wait_with_output().expect("it ends");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(1), "{json}");
    let all = json.to_string();
    assert!(all.contains("agent b"), "{all}");
    let log = fs::read_to_string(machines.scratch.path("results/logs/meter.log"));
    assert!(log.is_ok(), "{log:?}");
}
