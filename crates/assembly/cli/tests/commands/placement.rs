//! Runs that are distributed over agents, by `timeloom run` and `[placement]`.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use timeloom_results::{ClockAction, ClockRow, EventRow, RunDirectory, SignalRow};
use timeloom_test_support::{need, wait_for};

use crate::support::machines::{Agent, Machines, let_go};
use crate::support::place;

impl Machines {
    /// Starts agents that wait for runs, on the first `count` machines.
    pub(crate) fn serving(&self, count: usize) -> Vec<Agent> {
        self.serving_by(count, "machine")
    }

    /// Starts agents that wait for runs and use this timeline, on the first `count` machines.
    pub(crate) fn serving_by(&self, count: usize, timeline: &str) -> Vec<Agent> {
        let agents = (0..count)
            .map(|index| self.serve(index, timeline))
            .collect();
        for index in 0..count {
            wait_for("it waits for runs", || {
                self.said(index).contains("waits for runs").then_some(())
            });
        }
        agents
    }

    fn serve(&self, index: usize, timeline: &str) -> Agent {
        let mut command = self.within(index + 1, env!("CARGO_BIN_EXE_timeloom"));
        command.args(["agent", "--serve", "--timeline", timeline]);
        command.args(["--listen", &format!("10.9.0.{}:5500", index + 1)]);
        command.args(["--key-file", &self.scratch.text("key")]);
        command.args(["--name", &self.session(index)]);
        command.args(["--directory", &self.scratch.text(&format!("agent-{index}"))]);
        let errors = fs::File::create(self.scratch.path(&format!("{index}.err")));
        command.stderr(errors.expect("a file"));
        Agent(command.stdout(Stdio::null()).spawn().expect("an agent"))
    }

    fn said(&self, index: usize) -> String {
        fs::read_to_string(self.scratch.path(&format!("{index}.err"))).unwrap_or_default()
    }

    /// Starts `timeloom run` on the first machine. The run directory is `results`.
    pub(crate) fn start(&self, scenario: &Path, more: &[&str]) -> Child {
        self.within(1, env!("CARGO_BIN_EXE_timeloom"))
            .args(["run", "--json", "--output", &self.scratch.text("results")])
            .arg(scenario)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("timeloom run")
    }

    /// Writes a scenario with two hosts, each with a program, and with a link between the hosts'
    /// agents.
    pub(crate) fn scenario(&self, more: &str) -> std::path::PathBuf {
        need("/usr/bin/python3", "python3");
        let case = self.scratch.path("case");
        fs::create_dir(&case).expect("a directory");
        fs::write(case.join("meter.py"), METER).expect("a file");
        fs::write(case.join("reader.py"), READER).expect("a file");
        fs::write(case.join("names.txt"), "volt\nampere\n").expect("a file");
        let text = format!(
            r#"
            schema = "timeloom/1"
            name = "spread"
            [time]
            duration = "10 s"
            start = "2019-06-03T00:00:00Z"
            [system]
            switches = ["s1"]
            links = [
                {{ between = ["meter", "s1"], rate = "10 Mbit/s" }},
                {{ between = ["reader", "s1"], rate = "10 Mbit/s" }},
            ]
            [system.hosts.meter]
            address = "10.0.0.1/24"
            [[system.hosts.meter.programs]]
            name = "meter"
            run = ["/usr/bin/python3", "meter.py", "names.txt"]
            ready = "tcp:5000"
            [system.hosts.reader]
            address = "10.0.0.2/24"
            [[system.hosts.reader.programs]]
            name = "reader"
            run = ["/usr/bin/python3", "reader.py", "meter"]
            after = ["meter"]
            [[capture]]
            link = ["meter", "s1"]
            [placement]
            key_file = "{key}"
            patience = "30 s"
            [placement.agents]
            a = {{ address = "10.9.0.1:5500" }}
            b = {{ address = "10.9.0.2:5500" }}
            [placement.nodes]
            meter = "a"
            s1 = "b"
            reader = "b"
            {more}
            "#,
            key = self.scratch.text("key")
        );
        let path = case.join("case.toml");
        fs::write(&path, text).expect("a file");
        path
    }
}

/// Server that answers with a word of its file, and with the time of its own clock.
pub(crate) const METER: &str = r#"
import itertools, socket, sys, time
words = itertools.cycle(open(sys.argv[1]).read().split())
with socket.create_server(("", 5000)) as server:
    connection, _ = server.accept()
    while connection.recv(1):
        line = f"{next(words)} {time.clock_gettime_ns(time.CLOCK_REALTIME)}\n"
        connection.sendall(line.encode())
time.sleep(1000)
"#;

/// Client that sends ten requests per second, and prints each answer with its local time.
pub(crate) const READER: &str = r#"
import socket, sys, time
with socket.create_connection((sys.argv[1], 5000)) as meter:
    lines = meter.makefile()
    while True:
        before = time.clock_gettime_ns(time.CLOCK_REALTIME)
        meter.sendall(b"?")
        word, there = lines.readline().split()
        after = time.clock_gettime_ns(time.CLOCK_REALTIME)
        print(word, before, there, after, flush=True)
        time.sleep(0.1)
"#;

/// Two agents run one scenario. Its files must be sent, its hosts must communicate over a tunnel, a
/// pause must stop both agents, and the results must come back as one run, by virtual time.
#[test]
fn two_agents_run_one_scenario_and_its_results_are_one_run() {
    let machines = Machines::new("spread", 2);
    let agents = machines.serving(2);
    let run = machines.start(&machines.scenario(""), &[]);
    wait_for("its programs speak", || {
        let virtual_ns = machines.query(1)["virtual_ns"].as_i64()?;
        (virtual_ns > 1_000_000_000).then_some(())
    });
    let (hold, at) = machines.hold(0);
    for index in 0..2 {
        let status = machines.query(index);
        assert_eq!(status["virtual_ns"].as_i64(), Some(at), "{status}");
        assert_eq!(status["paused"].as_bool(), Some(true), "{status}");
    }
    std::thread::sleep(std::time::Duration::from_millis(700));
    for index in 0..2 {
        let status = machines.query(index);
        assert_eq!(status["virtual_ns"].as_i64(), Some(at), "{status}");
    }
    let_go(hold);
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(0), "{json} {said}");
    assert_eq!(json["virtual_ns"].as_i64(), Some(10_000_000_000), "{json}");

    let results = RunDirectory::open(machines.scratch.path("results")).expect("a run");
    let log = fs::read_to_string(place(&results).join("logs/reader.log")).expect("a log");
    let answers: Vec<Vec<&str>> = log
        .lines()
        // The text after the timestamp.
        .filter_map(|line| Some(line.split_once("] ")?.1.split_whitespace().collect()))
        .collect();
    assert!(answers.len() > 5, "{log}");
    for (index, words) in answers.iter().enumerate() {
        let [word, before, there, after] = words[..] else {
            panic!("{words:?}");
        };
        assert_eq!(word, ["volt", "ampere"][index % 2], "the file came with it");
        let ns = |text: &str| text.parse::<i64>().expect("nanoseconds");
        // Both hosts must have the same time, and a frame must take its time.
        assert!(ns(before) < ns(there) && ns(there) < ns(after), "{words:?}");
    }
    let events = results.events().expect("events");
    ordered(events.iter().map(|row| row.t_virtual.as_ns()));
    let starts = |row: &&EventRow| &*row.kind == "start";
    let starts: Vec<(&str, &str)> = events
        .iter()
        .filter(starts)
        .map(|row| (&*row.host, &*row.source))
        .collect();
    assert_eq!(starts, [("meter", "meter"), ("reader", "reader")]);
    for link in ["meter-s1", "s1-meter"] {
        let tunnel = events.iter().find(|row| &*row.source == link);
        let text = &tunnel.expect("what the tunnel did").text;
        assert!(
            text.contains(" 0 lost between the machines, 0 refused"),
            "{text}"
        );
    }
    let clock: Vec<ClockRow> = results.clock().expect("changes of the clock");
    ordered(clock.iter().map(|row| row.t_virtual.as_ns()));
    let count = |action: &ClockAction| clock.iter().filter(|row| row.action == *action).count();
    assert_eq!(
        (count(&ClockAction::Start), count(&ClockAction::End)),
        (1, 1)
    );
    let hold = clock
        .iter()
        .find(|row| row.action == ClockAction::Pause && row.t_virtual.as_ns() == at);
    assert_eq!(hold.map(|row| &*row.host), Some("a"), "{clock:?}");
    let mut ahead = Vec::new();
    let signals = results.for_each(|row: SignalRow| {
        if &*row.name == "pause.ahead" && row.t_virtual.as_ns() == at {
            ahead.push((row.host.to_string(), row.value));
        }
        Ok(())
    });
    signals.expect("signals");
    assert!(
        matches!(&ahead[..], [(host, value)] if host == "a" && *value >= 0.0),
        "{ahead:?}"
    );
    let captured = fs::metadata(place(&results).join("net/meter-s1.pcapng")).expect("a capture");
    assert!(captured.len() > 1_000, "{captured:?}");
    assert!(place(&results).join("report.html").is_file());
    let manifest = results.manifest().expect("a manifest");
    assert!(
        manifest
            .inputs
            .iter()
            .any(|input| input.path.ends_with("meter.py"))
    );
    let left: Vec<String> = fs::read_dir(place(&results))
        .expect("the run directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .filter(|name| name.starts_with("from-"))
        .collect();
    assert_eq!(left, [""; 0], "what came was merged");
    // The agents wait for the next run, and must have nothing left over from this one.
    for index in 0..2 {
        wait_for("what was sent is removed", || {
            let folder = machines.scratch.path(&format!("agent-{index}"));
            (fs::read_dir(folder).ok()?.count() == 0).then_some(())
        });
    }
    drop(agents);
}

pub(crate) fn ordered(instants: impl Iterator<Item = i64>) {
    let instants: Vec<i64> = instants.collect();
    assert!(instants.is_sorted(), "{instants:?}");
}

/// If a program fails, its name, agent and host must be reported, and all must stop. The agents
/// must then run the next scenario.
#[test]
fn a_program_that_fails_on_an_agent_is_named_and_all_stop() {
    let machines = Machines::new("failing", 2);
    let agents = machines.serving(2);
    let scenario = machines.scenario(
        r#"
        [[system.hosts.reader.programs]]
        name = "breaks"
        start = "1 s"
        run = ["/bin/sh", "-c", "echo no fuse; exit 7"]
        "#,
    );
    let output = machines
        .start(&scenario, &[])
        .wait_with_output()
        .expect("it ends");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(1), "{json}");
    let culprit = json["culprit"].as_str().unwrap_or_default();
    for word in ["breaks", "host reader", "status 7", "agent b"] {
        assert!(culprit.contains(word), "{word}: {culprit}");
    }
    let log = fs::read_to_string(machines.scratch.path("results/logs/breaks.log"));
    assert!(log.expect("its log is here").contains("no fuse"));
    // An agent that lacks something must report that before any program runs.
    let text = fs::read_to_string(&scenario).expect("the scenario");
    let text = text.replace("/bin/sh", "/opt/nowhere/plc");
    fs::write(&scenario, text).expect("a file");
    let output = machines
        .start(&scenario, &["--replace"])
        .wait_with_output()
        .expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    for word in [
        "agent b (10.9.0.2:5500)",
        "/opt/nowhere/plc",
        "`breaks` of host reader",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    drop(agents);
}

/// If an agent dies, the run must stop on all others, which must name the agent that died.
#[test]
fn an_agent_that_dies_stops_the_run_and_is_named() {
    let machines = Machines::new("dying", 2);
    let mut agents = machines.serving(2);
    let scenario = machines.scenario("");
    let text = fs::read_to_string(&scenario).expect("the scenario");
    let text = text.replace(r#"duration = "10 s""#, r#"duration = "4000 s""#);
    fs::write(&scenario, text).expect("a file");
    let run = machines.start(&scenario, &[]);
    wait_for("it runs", || {
        let virtual_ns = machines.query(1)["virtual_ns"].as_i64()?;
        (virtual_ns > 500_000_000).then_some(())
    });
    drop(agents.pop());
    let output = run.wait_with_output().expect("it ends");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(1), "{json}");
    let culprit = json["culprit"].as_str().unwrap_or_default();
    assert!(culprit.contains("agent b"), "{culprit}");
    assert!(culprit.contains("10.9.0.2:5500"), "{culprit}");
    // The results of the agent that lives must be available.
    let log = fs::read_to_string(machines.scratch.path("results/logs/meter.log"));
    assert!(log.is_ok(), "{log:?}");
}

/// Agents must report their capabilities, even while one runs a share. The message must name an
/// agent that is absent. New messages of a run can be multicast.
#[test]
fn agents_report_their_capabilities_and_multicast_messages() {
    let machines = Machines::new("asked", 2);
    let mut agents = machines.serving(2);
    let scenario = machines.scenario("");
    let ask = || {
        let output = machines
            .within(1, env!("CARGO_BIN_EXE_timeloom"))
            .args(["doctor", "--json", "--agents"])
            .arg(&scenario)
            .output()
            .expect("timeloom doctor");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = said.lines().map(serde_json::from_str);
        let reports: Result<Vec<serde_json::Value>, _> = lines.collect();
        (output.status.code(), reports.expect("an object to a line"))
    };
    let run = machines.start(&scenario, &["--set", "placement.group=239.9.0.1:5502"]);
    wait_for("both at work", || {
        let (code, reports) = ask();
        assert_eq!((code, reports.len()), (Some(0), 2), "{reports:?}");
        let busy = |report: &serde_json::Value| report["busy"] == true;
        reports.iter().all(busy).then_some(())
    });
    let output = run.wait_with_output().expect("it ends");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(0), "{json}");
    drop(agents.pop());
    let (code, reports) = ask();
    assert_eq!(code, Some(3), "{reports:?}");
    assert_ne!(reports[0]["state"], "missing", "{reports:?}");
    let findings = reports[0]["findings"].as_array().expect("findings");
    let has = |feature: &str| findings.iter().any(|it| it["feature"] == feature);
    assert!(has("pause and resume") && has("clock shared with the others"));
    assert_eq!(reports[1]["agent"], "b");
    assert_eq!(reports[1]["state"], "missing");
}

/// Missing pins must be reported before any program runs.
#[test]
fn an_agent_without_its_pins_says_so() {
    let machines = Machines::new("pins", 2);
    let agents = machines.serving(2);
    let scenario = machines.scenario("");
    let pins = "placement.agents.b.gpio=nochip:1,2,3";
    let output = machines
        .start(&scenario, &["--set", pins])
        .wait_with_output();
    let output = output.expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("agent b (10.9.0.2:5500): the pins nochip:1,2,3"),
        "{said}"
    );
    drop(agents);
}

/// A peer without the key must receive nothing, and must not be able to write anything.
#[test]
fn a_peer_with_another_key_is_turned_away() {
    let machines = Machines::new("key", 1);
    let agents = machines.serving(1);
    let scenario = machines.scenario("");
    let text = fs::read_to_string(&scenario).expect("the scenario");
    machines.scratch.write_key("other", &"f".repeat(64));
    let text = text.replace(
        &machines.scratch.text("key"),
        &machines.scratch.text("other"),
    );
    fs::write(&scenario, text).expect("a file");
    let output = machines
        .start(&scenario, &[])
        .wait_with_output()
        .expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("agent a (10.9.0.1:5500)"), "{said}");
    wait_for("the agent says why", || {
        machines.said(0).contains("another key").then_some(())
    });
    let written = fs::read_dir(machines.scratch.path("agent-0")).expect("its directory");
    assert_eq!(written.count(), 0);
    drop(agents);
}
