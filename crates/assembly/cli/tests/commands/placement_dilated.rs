//! Scenarios that are distributed over agents and dilated, from the start or while they run.

use std::fs;
use std::path::Path;
use std::process::Child;

use timeloom_results::{ClockAction, EventRow, RunDirectory, SignalRow};
use timeloom_test_support::wait_for;

use crate::placement::ordered;
use crate::placement_simulated;
use crate::support::machines::{Machines, let_go, timeloom};
use crate::support::place;

/// Program that waits for each tenth of a second of its clock, and prints its number and by how
/// many nanoseconds it was late.
const TICKS: &str = r#"
import time
start = 1559520000 * 10**9
for number in range(1, 10**6):
    due = start + number * 10**8
    while (left := due - time.clock_gettime_ns(time.CLOCK_REALTIME)) > 0:
        time.sleep(left / 1e9)
    print(number, time.clock_gettime_ns(time.CLOCK_REALTIME) - due, flush=True)
"#;

/// Programs of both hosts that run [`TICKS`].
const TICKING: &str = r#"
[[system.hosts.meter.programs]]
name = "ticks-a"
run = ["/usr/bin/python3", "ticks.py"]
[[system.hosts.reader.programs]]
name = "ticks-b"
run = ["/usr/bin/python3", "ticks.py"]
"#;

/// Virtual duration of the runs.
const DURATION_NS: i64 = 6_000_000_000;

/// Results of a run that has ended as planned, with what it printed.
fn results(machines: &Machines, run: Child) -> (RunDirectory, serde_json::Value) {
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(0), "{json} {said}");
    assert_eq!(json["virtual_ns"].as_i64(), Some(DURATION_NS), "{json}");
    let results = RunDirectory::open(machines.scratch.path("results")).expect("a run");
    (results, json)
}

fn lines(results: &RunDirectory, program: &str) -> Vec<Vec<i64>> {
    let log = place(results).join(format!("logs/{program}.log"));
    let log = fs::read_to_string(log).expect("a log");
    let texts = log
        .lines()
        .filter_map(|line| Some(line.split_once("] ")?.1));
    let numbers = |text: &str| text.split(' ').filter_map(|it| it.parse().ok()).collect();
    texts.map(numbers).collect()
}

/// Checks that no tick was early and none is missing, and returns the number of ticks.
fn ticks(results: &RunDirectory, program: &str) -> usize {
    let ticks = lines(results, program);
    for (index, tick) in ticks.iter().enumerate() {
        assert_eq!(tick[0], index as i64 + 1, "{program}: {ticks:?}");
        assert!(tick[1] >= 0, "{program} is early: {ticks:?}");
    }
    // Ticks at the end may be late on a busy machine.
    let planned = (DURATION_NS / 100_000_000) as usize;
    let found = ticks.len();
    assert!(
        found <= planned && found > planned / 2,
        "{program}: {found}"
    );
    found
}

/// Checks that the answers of the meter lie between the reader's requests and their arrivals, by
/// the clocks of their hosts.
fn answers_are_in_order(results: &RunDirectory) {
    let answers = lines(results, "reader");
    assert!(answers.len() > 3, "{answers:?}");
    ordered(answers.concat().into_iter());
}

/// Hosts, sources and kinds of the events that are the same in each run.
fn events(results: &RunDirectory) -> Vec<(String, String, String)> {
    let events = results.events().expect("events");
    let same = events
        .iter()
        .filter(|row| matches!(&*row.kind, "start" | "ready"));
    let of = |row: &EventRow| [&row.host, &row.source, &row.kind].map(|it| it.to_string());
    let mut same: Vec<_> = same.map(of).map(|[a, b, c]| (a, b, c)).collect();
    same.sort();
    same
}

fn wait_until(machines: &Machines, virtual_ns: i64) {
    for index in 0..2 {
        wait_for("its programs run", || {
            (machines.query(index)["virtual_ns"].as_i64()? > virtual_ns).then_some(())
        });
    }
}

/// Writes a scenario of two agents with the programs, and the same scenario for one machine.
fn scenarios(machines: &Machines) -> [std::path::PathBuf; 2] {
    let spread = machines.scenario(TICKING);
    let case = spread.parent().expect("a directory");
    fs::write(case.join("ticks.py"), TICKS).expect("a file");
    let text = fs::read_to_string(&spread).expect("the scenario");
    let (head, _) = text.split_once("[placement]").expect("the agents");
    let local = case.join("local.toml");
    fs::write(&local, format!("{head}{TICKING}")).expect("a file");
    [spread, local]
}

fn start(machines: &Machines, scenario: &Path, dilation: f64) -> Child {
    let dilation = format!("time.dilation={dilation}");
    let duration = format!("time.duration={} s", DURATION_NS / 1_000_000_000);
    let more = ["--replace", "--set", &dilation, "--set", &duration];
    machines.start(scenario, &more)
}

/// Both agents must begin at the dilation of the scenario, pause at one virtual instant, and end at
/// the planned one. Programs, tunnels and events must be as in a run on one machine.
#[test]
fn agents_run_a_dilated_scenario() {
    let machines = Machines::new("spread-dilated", 2);
    let agents = machines.serving(2);
    let [spread, local] = scenarios(&machines);
    for dilation in [3.0, 0.5] {
        let run = start(&machines, &spread, dilation);
        wait_until(&machines, 500_000_000);
        let (hold, at) = machines.hold(1);
        for index in 0..2 {
            let status = machines.query(index);
            assert_eq!(status["virtual_ns"].as_i64(), Some(at), "{status}");
            assert_eq!(status["dilation"].as_f64(), Some(dilation), "{status}");
        }
        let_go(hold);
        // The other run is over too soon for readings on a busy machine.
        if dilation > 1.0 {
            machines.check_readings(2, 4);
        }
        let (together, json) = results(&machines, run);
        // A virtual second takes `dilation` wall seconds, apart from pauses.
        let of = |key: &str| json[key].as_i64().expect("a length") as f64;
        let ran = (of("wall_ns") - of("paused_ns")) / DURATION_NS as f64;
        assert!((ran / dilation - 1.0).abs() < 0.01, "{dilation}: {json}");
        answers_are_in_order(&together);
        let mut deviations = Vec::new();
        let signals = together.for_each(|row: SignalRow| {
            if &*row.name == "pause.deviation" && row.t_virtual.as_ns() == at {
                deviations.push(row.value);
            }
            Ok(())
        });
        signals.expect("signals");
        assert_eq!(deviations.len(), 2, "{deviations:?}");
        let is_small = |deviation: &f64| deviation.abs() < 0.001;
        assert!(deviations.iter().all(is_small), "{deviations:?}");
        let found = ["ticks-a", "ticks-b"].map(|program| ticks(&together, program));
        let of_both = events(&together);

        let (alone, _) = results(&machines, start(&machines, &local, dilation));
        assert_eq!(of_both, events(&alone));
        answers_are_in_order(&alone);
        for (program, found) in ["ticks-a", "ticks-b"].into_iter().zip(found) {
            let there = ticks(&alone, program);
            assert!(found.abs_diff(there) < 10, "{program}: {found} {there}");
        }
    }
    drop(agents);
}

/// A change of the rate must be in force from one virtual instant on, on both agents, and the
/// results must contain it. No program may see the time of the other agent go wrong.
#[test]
fn agents_change_the_rate_of_a_run_at_one_virtual_instant() {
    let machines = Machines::new("spread-changed", 2);
    let agents = machines.serving(2);
    let [spread, _] = scenarios(&machines);
    let run = start(&machines, &spread, 1.0);
    wait_until(&machines, 500_000_000);
    let factors = [10.0, 5.0, 0.5];
    for (turn, factor) in factors.into_iter().enumerate() {
        machines.dilate(turn % 2, factor);
        // At the last rate, the run may end before an answer comes.
        if factor < 1.0 {
            break;
        }
        for index in 0..2 {
            wait_for("all have changed", || {
                (machines.query(index)["dilation"].as_f64() == Some(factor)).then_some(())
            });
        }
        machines.check_readings(2, 4);
    }
    let (results, _) = results(&machines, run);
    assert_eq!(results.manifest().expect("a manifest").pauses, 3);
    answers_are_in_order(&results);
    for program in ["ticks-a", "ticks-b"] {
        ticks(&results, program);
    }
    let events = results.events().expect("events");
    let of = |agent: &str| -> Vec<(i64, String)> {
        let changes = events.iter().filter(|row| &*row.kind == "dilated");
        let its = changes.filter(|row| &*row.host == agent);
        its.map(|row| (row.t_virtual.as_ns(), row.text.to_string()))
            .collect()
    };
    assert_eq!(of("a"), of("b"));
    let texts = factors.map(|factor| format!("dilation {factor} from now on, on all agents"));
    let told: Vec<String> = of("a").into_iter().map(|it| it.1).collect();
    assert_eq!(told, texts);
    for link in ["meter-s1", "s1-meter"] {
        let tunnel = events.iter().find(|row| &*row.source == link);
        let text = &tunnel.expect("what the tunnel did").text;
        assert!(
            text.contains(" 0 lost between the machines, 0 refused"),
            "{text}"
        );
    }
    drop(agents);
}

/// The engines of a simulated network on two agents must follow the dilation of the scenario, and a
/// slower one. A packet must take the delay of its link in virtual time. A faster clock than that
/// of the scenario is refused, since the engines' bounds are not made for it.
#[test]
fn engines_on_two_agents_follow_a_dilated_clock() {
    let machines = Machines::new("engines-dilated", 2);
    let agents = machines.serving(2);
    let scenario = placement_simulated::scenario(&machines);
    let run = start(&machines, &scenario, 2.0);
    wait_until(&machines, 500_000_000);
    machines.dilate(1, 4.0);
    let refused = timeloom(&["dilate", "1", "--name", &machines.session(0)]);
    let said = String::from_utf8_lossy(&refused.stderr).replace('\n', " ");
    assert!(said.contains("a dilation of 2 or more"), "{said}");
    for index in 0..2 {
        wait_for("both have changed", || {
            (machines.query(index)["dilation"].as_f64() == Some(4.0)).then_some(())
        });
    }
    machines.check_readings(2, 5);
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    // The machine may be too busy for a simulated network.
    assert!(matches!(code, Some(0 | 4)), "{code:?} {said}");
    let results = RunDirectory::open(machines.scratch.path("results")).expect("a run");
    for reader in ["reader", "reader6"] {
        let answers = lines(&results, reader);
        assert!(answers.len() > 5, "{reader}: {answers:?}");
        for times in answers {
            // Each direction takes 20 ms of virtual time.
            let least = 19_900_000;
            let [before, there, after] = times[..] else {
                panic!("{times:?}");
            };
            assert!(there - before > least && after - there > least, "{times:?}");
        }
    }
    let events = results.events().expect("events");
    let changes = events.iter().filter(|row| &*row.kind == "dilated");
    let changes: Vec<(i64, &str)> = changes
        .map(|row| (row.t_virtual.as_ns(), &*row.host))
        .collect();
    let [(at, "a"), (same, "b")] = changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(at, same);
    drop(agents);
}

/// A step and a run until an instant at one agent are those of all, in a dilated run.
#[test]
fn a_dilated_run_steps_on_all_agents() {
    let machines = Machines::new("spread-steps", 2);
    let agents = machines.serving(2);
    let [spread, _] = scenarios(&machines);
    let duration = [
        "--replace",
        "--set",
        "time.duration=1 h",
        "--set",
        "time.dilation=2",
    ];
    let mut run = machines.start(&spread, &duration);
    wait_until(&machines, 500_000_000);
    machines.command(1, &["pause"]);
    let mut at = machines.now_ns(1);
    for step_ms in [1, 30, 500] {
        machines.command(1, &["step", &format!("{step_ms} ms")]);
        at += step_ms * 1_000_000;
        machines.all_stand_at(2, at);
    }
    machines.command(1, &["resume"]);
    machines.command(0, &["run-until", "+1s"]);
    let reached = machines.now_ns(0);
    assert!(reached > at + 1_000_000_000, "{reached} {at}");
    machines.all_stand_at(2, reached);
    let _ = run.kill();
    let _ = run.wait();
    drop(agents);
}

/// A simulator grants the time of agents that compute. All stop at exactly the end of each grant,
/// and programs find no timer early.
#[test]
fn the_time_of_computing_agents_is_granted_at_the_first() {
    let machines = Machines::new("spread-granted", 2);
    let agents = machines.serving(2);
    let [spread, _] = scenarios(&machines);
    let duration = format!("time.duration={} s", DURATION_NS / 1_000_000_000);
    let more = [
        "--replace",
        "--set",
        "time.mode=stepped",
        "--set",
        &duration,
    ];
    let run = machines.start(&spread, &more);
    assert_eq!(
        machines.grant_steps(DURATION_NS, true),
        61,
        "steps of 99 ms"
    );
    let (granted, _) = results(&machines, run);
    for program in ["ticks-a", "ticks-b"] {
        ticks(&granted, program);
    }
    answers_are_in_order(&granted);
    drop(agents);
}

/// Every agent stops at exactly the multiples of the period, and at no other instant.
#[test]
fn agents_stop_at_the_multiples_of_the_period() {
    const PERIOD_NS: i64 = 70_000_000;
    let machines = Machines::new("spread-period", 2);
    let agents = machines.serving(2);
    let [spread, _] = scenarios(&machines);
    let duration = format!("time.duration={} s", DURATION_NS / 1_000_000_000);
    for more in ["time.mode=virtual", "time.dilation=0.5"] {
        let period = [
            "--replace",
            "--set",
            "time.period=70 ms",
            "--set",
            &duration,
        ];
        let run = machines.start(&spread, &[&period[..], &["--set", more]].concat());
        let (stopped, _) = results(&machines, run);
        let rows = stopped.clock().expect("readable");
        for agent in ["a", "b"] {
            let of_agent = rows.iter().filter(|row| &*row.host == agent);
            let stops = of_agent
                .filter(|row| row.action == ClockAction::Pause && &*row.requester == "period");
            let stops: Vec<i64> = stops.map(|row| row.t_virtual.as_ns()).collect();
            let wanted = (0..).map(|it| it * PERIOD_NS);
            let wanted: Vec<i64> = wanted.take_while(|at| *at < DURATION_NS).collect();
            assert_eq!(stops, wanted, "{more}, agent {agent}");
        }
        for program in ["ticks-a", "ticks-b"] {
            ticks(&stopped, program);
        }
    }
    drop(agents);
}
