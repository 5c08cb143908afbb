//! Simulated network that is distributed over agents, each of which has an engine.

use std::fs;
use std::path::PathBuf;

use timeloom_results::{NodeKind, RunDirectory};
use timeloom_test_support::{need, wait_for};

use crate::placement::{METER, READER};
use crate::support::machines::{Machines, let_go, timeloom};
use crate::support::place;

/// Scenario with 20 ms between two routers that belong to different agents. Programs and simulated
/// traffic use that link. Some traffic stays on one agent.
pub(crate) fn scenario(machines: &Machines) -> PathBuf {
    need("/usr/bin/python3", "python3");
    let case = machines.scratch.path("case");
    fs::create_dir(&case).expect("a directory");
    fs::write(case.join("meter.py"), METER).expect("a file");
    fs::write(case.join("reader.py"), READER).expect("a file");
    // The same programs over IPv6, on another port.
    let meter6 = METER.replace(r#"("", 5000)"#, r#"("::", 5001), family=socket.AF_INET6"#);
    fs::write(case.join("meter6.py"), meter6).expect("a file");
    fs::write(case.join("reader6.py"), READER.replace("5000", "5001")).expect("a file");
    fs::write(case.join("names.txt"), "volt\nampere\n").expect("a file");
    let text = format!(
        r#"
        schema = "timeloom/1"
        name = "spread"
        [time]
        duration = "10 s"
        start = "2019-06-03T00:00:00Z"
        [network]
        routers = ["r1", "r2"]
        traffic = [
            {{ from = "bg-r0", to = "bg-l0", kind = "poisson", rate = "2 Mbit/s", name = "far" }},
            {{ from = "bg-l0", to = "bg-r1", kind = "cubic", name = "bulk" }},
            {{ from = "bg-l0", to = "bg-l1", kind = "cubic", name = "inner" }},
        ]
        [network.engines]
        parts = {{ a = ["r1", "bg-left"], b = ["r2", "bg-right"] }}
        encrypt = true
        [[network.generate]]
        name = "bg"
        shape = "dumbbell"
        size = 2
        access = {{ rate = "10 Mbit/s" }}
        trunk = {{ delay = "5 ms", rate = "10 Mbit/s" }}
        [system]
        links = [
            {{ between = ["reader", "r1"] }},
            {{ between = ["r1", "r2"], rate = "100 Mbit/s", delay = "20 ms" }},
            {{ between = ["r2", "meter"] }},
        ]
        [system.hosts.meter]
        address = ["10.2.0.2/24", "fd00:2::2/64"]
        [[system.hosts.meter.programs]]
        name = "meter"
        run = ["/usr/bin/python3", "meter.py", "names.txt"]
        ready = "tcp:5000"
        [[system.hosts.meter.programs]]
        name = "meter6"
        run = ["/usr/bin/python3", "meter6.py", "names.txt"]
        ready = "tcp:5001"
        [system.hosts.reader]
        address = ["10.1.0.2/24", "fd00:1::2/64"]
        [[system.hosts.reader.programs]]
        name = "reader"
        run = ["/usr/bin/python3", "reader.py", "10.2.0.2"]
        after = ["meter"]
        [[system.hosts.reader.programs]]
        name = "reader6"
        run = ["/usr/bin/python3", "reader6.py", "fd00:2::2"]
        after = ["meter6"]
        [[capture]]
        link = ["r1", "r2"]
        [[check]]
        name = "crosses"
        assert = "max(net.cut.b-a.packets) > 0"
        [placement]
        key_file = "{key}"
        patience = "30 s"
        default = "a"
        nodes = {{ meter = "b" }}
        [placement.agents]
        a = {{ address = "10.9.0.1:5500" }}
        b = {{ address = "10.9.0.2:5500" }}
        "#,
        key = machines.scratch.text("key")
    );
    let path = case.join("case.toml");
    fs::write(&path, text).expect("a file");
    path
}

#[test]
fn engines_on_two_agents_run_one_simulated_network() {
    let machines = Machines::new("engines", 2);
    let agents = machines.serving(2);
    let mut run = machines.start(&scenario(&machines), &[]);
    wait_for("its programs speak", || {
        let ended = run.try_wait().expect("our own child");
        assert_eq!(ended, None, "it ends too early");
        let virtual_ns = machines.query(1)["virtual_ns"].as_i64()?;
        (virtual_ns > 1_000_000_000).then_some(())
    });
    // Packets in flight must be stopped as well.
    let (hold, at) = machines.hold(0);
    for index in 0..2 {
        let status = machines.query(index);
        assert_eq!(status["virtual_ns"].as_i64(), Some(at), "{status}");
    }
    std::thread::sleep(std::time::Duration::from_millis(700));
    let_go(hold);
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    // The machine may be too busy for a simulated network.
    assert!(matches!(code, Some(0 | 4)), "{code:?} {said}");

    let results = RunDirectory::open(machines.scratch.path("results")).expect("a run");
    for reader in ["reader", "reader6"] {
        let log = place(&results).join(format!("logs/{reader}.log"));
        let log = fs::read_to_string(log).expect("a log");
        let answers: Vec<Vec<&str>> = log
            .lines()
            .filter_map(|line| Some(line.split_once("] ")?.1.split_whitespace().collect()))
            .collect();
        assert!(answers.len() > 5, "{reader}: {log}");
        for words in &answers {
            let ns = |index: usize| words[index].parse::<i64>().expect("nanoseconds");
            let (before, there, after) = (ns(1), ns(2), ns(3));
            // Each direction must take 20 ms. The clocks of the hosts agree except for their
            // reading errors.
            let least = 19_900_000;
            assert!(there - before > least && after - there > least, "{words:?}");
        }
    }

    let events = results.events().expect("events");
    for (host, cut) in [("a", "b-a: "), ("b", "a-b: ")] {
        let its = events.iter().filter(|row| &*row.kind == "cut");
        let its: Vec<_> = its.filter(|row| &*row.host == host).collect();
        assert!(its.len() == 1 && its[0].text.starts_with(cut), "{its:?}");
        assert!(its[0].text.contains(" 0 lost"), "{its:?}");
    }
    // One agent reports each flow: the receiver of datagrams, and the sender of a TCP flow.
    let told = events.iter().filter(|row| &*row.kind == "traffic");
    let told = told.map(|row| (&*row.host, row.text.split(':').next().unwrap_or_default()));
    let mut told: Vec<_> = told.collect();
    told.sort_unstable();
    let [far, bulk, inner] = ["bg-r0 to bg-l0", "bg-l0 to bg-r1", "bg-l0 to bg-l1"];
    assert_eq!(told, [("a", inner), ("a", bulk), ("a", far)]);
    // Each signal must be recorded by exactly one agent.
    for signal in [
        "net.cut.a-b.packets",
        "net.cut.b-a.packets",
        "net.link.r1-r2.throughput",
        "net.link.r2-meter.throughput",
        "net.flow.far.throughput",
        "net.flow.inner.throughput",
        "net.flow.bulk.throughput",
        "net.flow.bulk.delay",
    ] {
        let series = results.series(&[signal]).expect("readable");
        let samples = &series[0].samples;
        let times: Vec<_> = samples.iter().map(|(at, _)| *at).collect();
        assert!(times.is_sorted_by(|a, b| a < b), "{signal}: {samples:?}");
        assert!(samples.iter().any(|(_, value)| *value > 0.0), "{signal}");
    }
    let topology = results.topology().expect("readable").expect("simulated");
    let real = topology.nodes.iter().filter(|it| it.kind == NodeKind::Real);
    assert_eq!((real.count(), topology.flows.len()), (2, 3));
    // Packets that arrived at each end of the cable between the agents.
    let [near, far] = [[10, 1, 0, 2], [10, 2, 0, 2]];
    for (end, way) in [("a", [far, near]), ("b", [near, far])] {
        let file = place(&results).join(format!("net/r1-r2.at-{end}.pcapng"));
        let capture = fs::read(&file).expect("it is there");
        let found = |ends: &[[u8; 4]; 2]| {
            let ends = ends.concat();
            capture.windows(8).any(|part| part == ends)
        };
        assert!(found(&way) && !found(&[way[1], way[0]]), "{file:?}");
    }
    drop(agents);
}

/// All agents know the scenario's changes of links. A command would reach one agent only.
#[test]
fn a_link_between_agents_changes_by_schedule_and_not_by_hand() {
    let machines = Machines::new("enginelinks", 2);
    let agents = machines.serving(2);
    let scenario = scenario(&machines);
    let text = fs::read_to_string(&scenario).expect("the scenario");
    let event = r#"
        [[event]]
        at = "5 s"
        link = ["r1", "r2"]
        delay = "70 ms"
        [[check]]
        "#;
    fs::write(&scenario, text.replacen("[[check]]", event, 1)).expect("a file");
    let mut run = machines.start(&scenario, &[]);
    wait_for("it begins", || {
        let ended = run.try_wait().expect("our own child");
        assert_eq!(ended, None, "it ends too early");
        (machines.query(1)["virtual_ns"].as_i64()? > 500_000_000).then_some(())
    });
    for index in 0..2 {
        let session = machines.session(index);
        let refused = timeloom(&["link", "r1-r2", "--delay", "90ms", "--name", &session]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && why.contains("[[event]]"),
            "{why}"
        );
    }
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    // The machine may be too busy for a simulated network.
    assert!(matches!(code, Some(0 | 4)), "{code:?} {said}");

    let results = RunDirectory::open(machines.scratch.path("results")).expect("a run");
    let events = results.events().expect("events");
    let changes: Vec<(i64, &str)> = events
        .iter()
        .filter(|event| &*event.kind == "link")
        .map(|event| (event.t_virtual.as_ns(), &*event.text))
        .collect();
    assert_eq!(changes, [(5_000_000_000, "r1-r2: delay 70 ms")]);
    let log = fs::read_to_string(place(&results).join("logs/reader.log")).expect("a log");
    let answers = log.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_once("] ")?.1.split_whitespace().collect();
        let ns = |index: usize| words.get(index)?.parse::<i64>().ok();
        Some([ns(1)?, ns(2)?, ns(3)?])
    });
    // Both directions are slower, each simulated by another agent. A packet may be on its way when
    // the delay changes.
    let late: Vec<_> = answers.collect();
    let slow = |[before, there, after]: &[i64; 3]| {
        there - before > 69_900_000 && after - there > 69_900_000
    };
    let changed = late
        .iter()
        .position(slow)
        .unwrap_or_else(|| panic!("none is slower: {log}"));
    assert!(changed > 0 && late[changed..].iter().all(slow), "{late:?}");
    drop(agents);
}

/// An engine must stop waiting for the engine of an agent that failed before it created one.
#[test]
fn no_engine_waits_for_an_agent_that_failed_before_it_had_one() {
    let machines = Machines::new("enginefails", 2);
    let agents = machines.serving(2);
    let scenario = scenario(&machines);
    let text = fs::read_to_string(&scenario).expect("the scenario");
    let plant = r#"
        [placement.plants]
        grid = "b"
        [simulation.plants.grid]
        run = ["/bin/false"]
        step = "10 ms"
        "#;
    fs::write(&scenario, format!("{text}{plant}")).expect("a file");
    let run = machines.start(&scenario, &[]);
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    let culprit = json["culprit"].as_str().unwrap_or_default();
    assert_eq!(output.status.code(), Some(1), "{json} {said}");
    assert!(culprit.contains("agent b"), "{json} {said}");
    // Both agents must be free for the next run.
    fs::write(&scenario, &text).expect("a file");
    let mut run = machines.start(&scenario, &["--replace"]);
    wait_for("the next run begins", || {
        let ended = run.try_wait().expect("our own child");
        assert_eq!(ended, None, "it ends too early");
        let virtual_ns = machines.query(0)["virtual_ns"].as_i64()?;
        (virtual_ns > 100_000_000).then_some(())
    });
    let _ = run.kill();
    let _ = run.wait();
    drop(agents);
}

/// No machine's civil time is accurate to a microsecond, which is the delay of the cable.
#[test]
fn agents_whose_clocks_may_be_further_apart_than_a_cable_takes_do_not_begin() {
    let machines = Machines::new("clocksapart", 2);
    let agents = machines.serving_by(2, "system");
    let scenario = scenario(&machines);
    let text = fs::read_to_string(&scenario).expect("the scenario");
    let text = text.replace("delay = \"20 ms\"", "delay = \"1 us\"");
    fs::write(&scenario, text).expect("a file");
    let output = machines.start(&scenario, &[]).wait_with_output();
    let output = output.expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(1), "{json} {said}");
    let words = [
        "the clocks of the agents ",
        " apart",
        " takes 1 us, so every packet",
    ];
    let both = format!("{json} {said}");
    assert!(words.iter().all(|word| both.contains(word)), "{both}");
    drop(agents);
}
