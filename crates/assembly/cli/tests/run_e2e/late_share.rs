//! Late packets between engines: if their share exceeds what a scenario tolerates, the run must not
//! be trusted.

use crate::support::{Finished, Lab};

/// Scenario with two engines, and a cable of one nanosecond between them. Each engine has traffic
/// of its own, so that it has an event every few microseconds. On no machine do two threads always
/// agree to a nanosecond, so packets from the slower engine arrive after the instant of the faster
/// one.
const SHORT: &str = r#"
schema = "timeloom/1"
name = "short"
time = { duration = "200 ms" }
[network]
routers = ["r1", "r2"]
traffic = [
    { from = "l-h0", to = "r-h0", kind = "udp", rate = "80 Mbit/s" },
    { from = "r-h0", to = "l-h0", kind = "udp", rate = "80 Mbit/s" },
    { from = "l-h1", to = "l-h2", kind = "udp", rate = "400 Mbit/s", bytes = 500 },
    { from = "r-h1", to = "r-h2", kind = "udp", rate = "400 Mbit/s", bytes = 500 },
]
[[network.generate]]
name = "l"
shape = "star"
size = 3
[[network.generate]]
name = "r"
shape = "star"
size = 3
[network.engines]
parts = { west = ["r1", "l-*"], east = ["r2", "r-*"] }
late_after = "1 ns"
[system]
links = [
    { between = ["l-switch", "r1"] },
    { between = ["r1", "r2"], delay = "1 ns" },
    { between = ["r2", "r-switch"] },
    { between = ["a", "r1"] },
]
[system.hosts.a]
address = "10.77.0.2/24"
"#;

/// Returns for each direction the number of packets from the peer engine, and the number of those
/// that arrived after their instant, as reported.
fn crossed(run: &Finished) -> Vec<(u64, u64)> {
    let events = run.directory().events().expect("readable");
    let cuts = events.iter().filter(|event| &*event.kind == "cut");
    let number = |text: &str| text.trim().parse().expect("a number");
    cuts.map(|cut| {
        let (came, rest) = cut.text.split_once(" packets came, ").expect("said");
        let came = came.rsplit(' ').next().expect("a number");
        let late = rest.split(" of them after").next().expect("said");
        (number(came), number(late))
    })
    .collect()
}

/// Returns the reasons for doubt: first those about packets between engines, then all others.
fn doubts(run: &Finished) -> (Vec<String>, Vec<String>) {
    let all = run.manifest().untrusted;
    let all = all.iter().map(|doubt| doubt.to_string());
    all.partition(|doubt| doubt.starts_with("Packets came too late from engine to engine"))
}

#[test]
fn a_run_whose_packets_come_late_between_engines_is_not_to_be_trusted() {
    let lab = Lab::with_text(SHORT);
    let run = lab.run(&["network.engines.late_share=0"]);
    let crossed = crossed(&run);
    assert!(crossed.iter().any(|(_, late)| *late > 0), "{crossed:?}");
    let (of_cuts, _) = doubts(&run);
    assert!(!of_cuts.is_empty(), "{}", run.output());
    assert_eq!(run.code, 4, "{}", run.output());
    lab.assert_nothing_left();
}

#[test]
fn a_run_that_tolerates_them_is_to_be_trusted() {
    let lab = Lab::with_text(SHORT);
    let run = lab.run(&["network.engines.late_share=1"]);
    let crossed = crossed(&run);
    assert!(crossed.iter().any(|(_, late)| *late > 0), "{crossed:?}");
    let (of_cuts, others) = doubts(&run);
    assert_eq!(of_cuts, [""; 0], "{}", run.output());
    // The machine itself may have been too slow, which is another reason for doubt.
    assert_eq!(
        run.code,
        if others.is_empty() { 0 } else { 4 },
        "{others:?}"
    );
    lab.assert_nothing_left();
}
