//! Simulated network in two engines, with programs in both parts that communicate.

use std::fs;
use std::process::{Command, ExitStatus};

use crate::support::{Lab, Running, log_lines, place, timeloom};

/// Dumbbell beside the routers, one half of which is in each engine, with simulated traffic.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub(crate) size: u32,
    pub(crate) traffic: &'a str,
}

/// Returns a network with two routers, one in the engine `west` and one in `east`. The link between
/// them has the properties `apart`. Behind the first router is the host `near` (10.1.0.2), and
/// behind the second the host `far` (10.2.0.2).
pub(crate) fn two_engines(
    name: &str,
    duration: &str,
    apart: &str,
    beside: Option<Beside<'_>>,
    more: &str,
) -> String {
    let (traffic, west, east) = match beside {
        Some(it) => (it.traffic, r#", "bg-left""#, r#", "bg-right""#),
        None => ("", "", ""),
    };
    let dumbbell = beside.map_or_else(String::new, |it| {
        format!(
            r#"
[[network.generate]]
name = "bg"
shape = "dumbbell"
size = {}
trunk = {{ delay = "5 ms", rate = "10 Mbit/s" }}"#,
            it.size
        )
    });
    format!(
        r#"
schema = "timeloom/1"
name = "{name}"
time = {{ duration = "{duration}" }}
[network]
routers = ["r1", "r2"]
traffic = [{traffic}]
[network.engines]
parts = {{ west = ["r1"{west}], east = ["r2"{east}] }}{dumbbell}
[system]
links = [
    {{ between = ["near", "r1"] }},
    {{ between = ["r1", "r2"], {apart} }},
    {{ between = ["r2", "far"] }},
]
[system.hosts.far]
address = "10.2.0.2/24"
[system.hosts.near]
address = "10.1.0.2/24"
{more}"#
    )
}

/// Traffic between the halves of a dumbbell that has one host on each side.
pub(crate) const TRAFFIC: &str = r#"
    { from = "bg-l0", to = "bg-r0", kind = "cubic", name = "bulk" },
    { from = "bg-r0", to = "bg-l0", kind = "poisson", rate = "2 Mbit/s", name = "datagrams" },
    { from = "bg-l0", to = "bg-r0", kind = "udp", rate = "400 kbit/s", model = "fluid" },
"#;

/// Scenario with 20 ms between two routers that belong to different engines. Programs send pings,
/// pings in fragments, a ping whose time to live ends at the first router, and a page of 300,000
/// bytes. Simulated traffic is sent as packets and as fluid.
fn far() -> String {
    let beside = Beside {
        size: 1,
        traffic: TRAFFIC,
    };
    two_engines("two", "20 s", APART, Some(beside), FAR)
}

/// Properties of the link between the routers.
pub(crate) const APART: &str = r#"rate = "100 Mbit/s", delay = "20 ms""#;

const FAR: &str = r#"
[[system.hosts.far.programs]]
name = "web"
run = ["python3", "-u", "-S", "-c", """
import socket
server = socket.create_server(("", 80))
print("listening")
while True:
    line, _ = server.accept()
    asked = b""
    while b"\\r\\n\\r\\n" not in asked:
        asked += line.recv(4096)
    line.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 300000\\r\\n\\r\\n" + b"x" * 300000)
    line.close()
"""]
ready_timeout = "15 s"
ready = "log:listening"
[[system.hosts.near.programs]]
name = "ask"
run = ["sh", "-c", """
ping -c 5 -i 0.2 -W 10 10.2.0.2
ping -c 1 -W 10 -s 4000 10.2.0.2
ping -c 1 -W 10 -t 1 10.2.0.2
curl -sS -o /dev/null -w 'got %{size_download} bytes, %{http_code}' http://10.2.0.2/
"""]
after = ["web"]
essential = false
[[capture]]
link = ["r1", "r2"]
[[check]]
name = "crosses"
assert = "max(net.cut.west-east.packets) > 0"
[[check]]
name = "comes-back"
assert = "max(net.cut.east-west.packets) > 0"
[[check]]
name = "nothing-lost-between-engines"
assert = "max(net.cut.east-west.lost) == 0"
[[check]]
name = "both-ends-of-a-tcp"
assert = "max(net.flow.bulk.throughput) > 5e6"
[[check]]
name = "its-round-trip"
assert = "min(net.flow.bulk.delay) >= 0.01"
[[check]]
name = "datagrams"
assert = "min(net.flow.datagrams.delay) >= 0.005"
[[check]]
name = "fluid"
assert = "max(net.flow.bg-l0-bg-r0.throughput) > 3e5"
[[check]]
name = "one-link-two-engines"
assert = "max(net.link.r1-r2.throughput) > 1e5"
"#;

pub(crate) fn crosses(mode: &str, sets: &[&str]) {
    let lab = Lab::with_text(&far());
    let mode_set = format!("network.engines.mode={mode}");
    let run = lab.run(&[&[&*mode_set], sets].concat());
    assert!([0, 4].contains(&run.code), "{mode}: {}", run.output());
    lab.assert_nothing_left();
    let lines = log_lines(run.path(), "ask");
    let all: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    let text = all.join("\n");
    assert!(text.contains("5 packets transmitted, 5 received"), "{text}");
    assert!(
        text.contains("4008 bytes from 10.2.0.2"),
        "fragments: {text}"
    );
    assert!(
        text.contains("From 10.1.0.1 icmp_seq=1 Time to live exceeded"),
        "{text}"
    );
    assert!(text.contains("got 300000 bytes, 200"), "{text}");
    let took = all.iter().filter_map(|line| line.split("time=").nth(1));
    let took_ms: Vec<f64> = took
        .map(|rest| rest.split(' ').next().unwrap().parse().expect("a number"))
        .collect();
    assert_eq!(took_ms.len(), 6, "{text}");
    assert!(
        took_ms.iter().all(|took| *took >= 40.0),
        "twice 20 ms: {text}"
    );
    let directory = run.directory();
    for check in directory.checks().expect("the checks can be read") {
        assert!(
            check.passed,
            "{mode}: {}: {}",
            check.name, check.explanation
        );
    }
    let events = directory.events().expect("readable");
    let cuts = events.iter().filter(|event| &*event.kind == "cut");
    let cuts: Vec<&str> = cuts.map(|event| &*event.text).collect();
    assert_eq!(cuts.len(), 2, "{cuts:?}");
    assert!(cuts.iter().all(|cut| cut.contains(" 0 lost")), "{cuts:?}");
    if mode == "exact" {
        let in_time = |cut: &&str| cut.contains(" 0 of them after their instant");
        assert!(cuts.iter().all(in_time), "{cuts:?}");
    }
    // Both engines' ends of the link must be in one capture, with pings in both directions.
    let capture = std::fs::read(place(&directory).join("net/r1-r2.pcapng")).expect("it is there");
    for ends in [[10, 1, 0, 2, 10, 2, 0, 2], [10, 2, 0, 2, 10, 1, 0, 2]] {
        let found = capture.windows(8).filter(|part| *part == ends).count();
        assert!(found >= 5, "{ends:?}: {found}");
    }
}

#[test]
fn programs_talk_across_a_cut_where_engines_do_not_wait() {
    crosses("free", &[]);
}

#[test]
fn programs_talk_across_a_cut_where_engines_wait_for_one_another() {
    crosses("exact", &[]);
}

#[test]
fn a_check_says_where_the_network_is_cut() {
    let lab = Lab::with_text(&far());
    let file = lab.path().join("scenario.toml");
    let output = timeloom(&["check", file.to_str().expect("a name")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("cut: r1-r2 (20 ms), bg-left-bg-right (5 ms)"),
        "{said}"
    );
    assert!(
        said.contains("5000 us of the machine's time to cross"),
        "{said}"
    );
}

/// Returns a network in which a host at the router of one engine queries a host at the router of
/// the other engine, for ever.
pub(crate) fn asks() -> String {
    two_engines("mortal", "600 s", APART, None, ASKS)
}

const ASKS: &str = r#"
[[system.hosts.near.programs]]
name = "ask"
run = ["sh", "-c", """
while :; do
    ping -c 1 -W 5 10.1.0.1 >/dev/null && echo the router answers
    ping -c 1 -W 2 10.2.0.2 >/dev/null && echo far answers || echo far is silent
    sleep 0.1
done
"""]
"#;

/// Makes the thread of an engine fail at its next sleep: strace makes the kernel return EBADF.
fn fails(run: &Running<'_>, engine: &str) -> ExitStatus {
    let threads = format!("/proc/{}/task", run.pid());
    let threads = fs::read_dir(threads).expect("it runs").flatten();
    let is_engine = |name: String| name.trim_end() == format!("engine {engine}");
    let mut threads = threads
        .filter(|thread| fs::read_to_string(thread.path().join("comm")).is_ok_and(is_engine));
    let thread = threads.next().expect("the engine has a thread").file_name();
    let inject = "--inject=?epoll_wait,?epoll_pwait,?epoll_pwait2:error=EBADF";
    let mut strace = Command::new("strace");
    strace.args(["-qq", "-o", "/dev/null", inject, "-p"]);
    strace.arg(thread).status().expect("strace is there")
}

#[test]
fn an_engine_that_fails_is_named_and_ends_the_run() {
    let lab = Lab::with_text(&asks());
    let mut run = lab.start(&[]);
    run.wait_for_line("ask", "far answers");
    fails(&run, "east");
    run.wait()
        .blames(&["engine east", "died: epoll on open descriptors"]);
    lab.assert_nothing_left();
}

#[test]
fn a_run_goes_on_without_an_engine_that_fails_where_it_is_to() {
    let lab = Lab::with_text(&asks());
    let mut run = lab.start(&["network.engines.failure=continue"]);
    run.wait_for_line("ask", "far answers");
    run.wait_until(1.5);
    fails(&run, "east");
    goes_on(
        &lab,
        run,
        "The simulated network's engine east thread has died.",
    );
}

/// Checks that a run of [`asks`] whose engine `east` has died continues, and reports the death at
/// its end.
pub(crate) fn goes_on(lab: &Lab, mut run: Running<'_>, doubt: &str) {
    run.wait_for_line("ask", "far is silent");
    let answers = || {
        let lines = log_lines(&lab.run_path(), "ask").into_iter();
        lines
            .filter(|(_, line)| line == "the router answers")
            .count()
    };
    let before = answers();
    run.wait_for("the engine that lives answers no more", |_| {
        answers() >= before + 2
    });
    run.signal(libc::SIGTERM);
    let ended = run.wait();
    lab.assert_nothing_left();
    let lines = log_lines(&lab.run_path(), "ask");
    let silent = lines.iter().position(|(_, line)| line == "far is silent");
    let after = &lines[silent.expect("it said so")..];
    let heard = after
        .iter()
        .filter(|(_, line)| line == "far answers")
        .count();
    assert_eq!(heard, 0, "{}", ended.output());
    let events = ended.directory().events().expect("readable");
    let has = |kind: &str, text: &str| {
        let mut events = events.iter();
        events.any(|event| &*event.kind == kind && event.text.contains(text))
    };
    assert!(has(
        "died",
        "engine east of the simulated network has died; the run continues"
    ));
    assert!(has("untrusted", doubt));
    // The living engine must still record its observations of a link whose opposite end is gone.
    let died = events.iter().find(|event| &*event.kind == "died");
    let died = died.expect("seen above").t_virtual;
    let loss = ended.directory().series(&["net.link.r1-r2.loss"]);
    let samples = &loss.expect("readable")[0].samples;
    let later = samples.iter().filter(|(at, _)| *at > died).count();
    assert!(later > 0, "{died:?}: {samples:?}");
}
