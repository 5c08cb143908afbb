//! Results of a simulated network: signals of its links and flows for checks, its topology in the
//! report, and captures of generated links.

use crate::support::{Lab, place};

/// Scenario in which 8 Mbit/s of IP packets with 1,000 bytes reach two links: one of 10 Mbit/s, and
/// one that loses a tenth of them. There is also a real host.
const NETWORK: &str = r#"
schema = "timeloom/1"
name = "signals"
seed = 11
time = { duration = "3 s" }
[network]
link = { rate = "10 Mbit/s", delay = "2 ms" }
generate = [
    { name = "g", shape = "star", size = 2 },
    { name = "h", shape = "star", size = 2, access = { loss = 0.1 } },
]
traffic = [
    { from = "g-h0", to = "g-h1", kind = "udp", rate = "8 Mbit/s", name = "clean" },
    { from = "h-h0", to = "h-h1", kind = "udp", rate = "8 Mbit/s" },
]
[system]
links = [
    { between = ["a", "g-switch"] },
    { between = ["g-switch", "h-switch"], name = "core" },
]
[system.hosts.a]
address = "10.77.0.2/24"
[[capture]]
link = ["g-switch", "g-h1"]
[[check]]
name = "load"
assert = "min(net.link.g-h0-g-switch.load) > 0.82 from 1 s"
[[check]]
name = "load-is-that-of-the-wire"
assert = "max(net.link.g-h0-g-switch.load) < 0.84 from 1 s"
[[check]]
name = "clean"
assert = "max(net.flow.clean.loss) == 0"
[[check]]
name = "delay-of-two-links"
assert = "min(net.flow.clean.delay) >= 0.004"
[[check]]
name = "lossy"
assert = "mean(net.flow.h-h0-h-h1.loss) > 0.12 from 1 s"
[[check]]
name = "idle"
assert = "max(net.link.core.throughput) < 1e6"
"#;

/// The values of the model are exact, however slow the machine is. Its checks must therefore hold
/// even in a run that is not trusted.
#[test]
fn links_and_flows_are_signals_and_the_report_draws_them() {
    let lab = Lab::with_text(NETWORK);
    let run = lab.run(&[]);
    assert!([0, 4].contains(&run.code), "{}", run.output());
    lab.assert_nothing_left();
    let directory = run.directory();
    for check in directory.checks().expect("the checks can be read") {
        assert!(check.passed, "{}: {}", check.name, check.explanation);
    }
    let series = directory
        .series(&["net.link.core.queue"])
        .expect("readable");
    let times: Vec<i64> = series[0].samples.iter().map(|(at, _)| at.as_ns()).collect();
    let expected: Vec<i64> = (1..=times.len() as i64).map(|n| n * 100_000_000).collect();
    assert_eq!(times, expected, "every tenth of a second, exactly");
    assert!(times.len() >= 29, "to the end: {times:?}");
    assert_eq!(&*series[0].unit, "packets");

    let topology = directory.topology().expect("readable").expect("simulated");
    assert_eq!((topology.nodes.len(), topology.links.len()), (7, 6));
    let names: Vec<&str> = topology
        .flows
        .iter()
        .map(|flow| flow.name.as_str())
        .collect();
    assert_eq!(names, ["clean", "h-h0-h-h1"]);
    // Simulated traffic has no bytes that could be captured, but the file must exist.
    let capture = std::fs::read(place(&directory).join("net/g-switch-g-h1.pcapng"));
    assert!(
        capture
            .expect("it is there")
            .starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])
    );

    let events = directory.events().expect("readable");
    let internals = |text: &str| text.contains(" { ") || text.contains("Some(");
    for event in events.iter().filter(|it| &*it.source == "network") {
        assert!(!internals(&event.text), "not for people: {}", event.text);
    }
    let report = std::fs::read_to_string(place(&directory).join("report.html"));
    let report = report.expect("there is a report");
    for told in [
        "The simulated network",
        "1 real host, 4 simulated hosts, ",
        "class=\"map\"",
    ] {
        assert!(report.contains(told), "no {told:?} in the report");
    }
}
