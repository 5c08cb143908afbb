//! Queues of the kernel hold frames back in real time: of a link with a rate, or a delay that a
//! program adds. Where time skips, it must pass at that pace meanwhile; where it does not, the run
//! must not be trusted.

use std::process::Command;

use crate::support::{Finished, Lab, log_lines};

/// Frames of the burst, with 1000 bytes each. The bucket passes the first at once.
const FRAMES: u32 = 50;

/// Payload of a frame, with the headers of UDP, IPv4 and Ethernet and the overhead of the wire.
const BITS: u32 = 8 * (1000 + 42 + 24);

const RATE_BITS_PER_S: u32 = 1_000_000;

/// Returns a scenario in which host `a` sends the burst at 5 s, over a link of `b` with `rate`.
/// Another program sleeps, so that there is always an instant to which time could skip. `more` is
/// Python that the source executes after the burst.
fn burst(rate: &str, more: &str) -> Lab {
    let lab = Lab::with_text(&format!(
        r#"
schema = "timeloom/1"
name = "held-frames"
[time]
duration = "60 s"
mode = "skip"
start = "2026-01-01T00:00:00Z"
[system]
switches = ["s"]
links = [
    {{ between = ["a", "s"] }},
    {{ between = ["b", "s"]{rate} }},
]
[system.hosts.b]
address = "10.0.0.2/24"
[[system.hosts.b.programs]]
name = "sink"
run = ["python3", "-u", "sink.py"]
ready = "log:listening"
[system.hosts.a]
address = "10.0.0.1/24"
[[system.hosts.a.programs]]
name = "source"
run = ["python3", "-u", "source.py"]
after = ["sink"]
[[system.hosts.a.programs]]
name = "tick"
run = ["sleep", "100"]
"#
    ));
    let sink = format!(
        "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
s.bind(('0.0.0.0', 9000))
print('listening')
for _ in range({FRAMES}):
    s.recv(2000)
print('until', time.monotonic())
time.sleep(100)
"
    );
    let source = format!(
        "import socket, subprocess, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
time.sleep(5)
print('from', time.monotonic())
for _ in range({FRAMES}):
    s.sendto(bytes(1000), ('10.0.0.2', 9000))
{more}
time.sleep(100)
"
    );
    for (name, text) in [("sink.py", sink), ("source.py", source)] {
        std::fs::write(lab.path().join(name), text).expect("it can be written");
    }
    lab
}

/// Rate of a link that needs less than half a second for the burst.
const FAST: &str = ", rate = \"1 Mbit/s\"";

/// Rate of a link that needs more than the duration of the run for the burst.
const SLOW: &str = ", rate = \"4800 bit/s\"";

/// Returns the virtual seconds from before the first frame is sent until the last is received;
/// `None` if the last did not arrive. A program that the machine delays makes this longer, not
/// shorter.
fn took_s(run: &Finished) -> Option<f64> {
    let instant_s = |program: &str, prefix: &str| -> Option<f64> {
        let lines = log_lines(run.path(), program);
        let text = lines.iter().find_map(|(_, line)| line.strip_prefix(prefix));
        Some(text?.parse().expect("a number"))
    };
    Some(instant_s("sink", "until ")? - instant_s("source", "from ")?)
}

/// Returns true if a reason for doubt names the queues.
fn is_doubted(run: &Finished) -> bool {
    let manifest = run.manifest();
    manifest
        .untrusted
        .iter()
        .any(|doubt| doubt.contains("held frames back") || doubt.contains("have held"))
}

/// Returns true if `timeloom doctor` says that BPF reports when all programs wait.
fn has_bpf() -> bool {
    let doctor = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .arg("doctor")
        .output()
        .expect("it can be started");
    String::from_utf8_lossy(&doctor.stdout).contains("by events of the scheduler")
}

/// If time skipped over frames of the burst, it would be at the end of the run at once.
#[test]
fn time_does_not_skip_while_a_link_holds_frames_back() {
    let lab = burst(FAST, "");
    let run = lab.run(&[]).succeeded();
    assert_eq!(is_doubted(&run), !has_bpf(), "{}", run.output());
    if !has_bpf() {
        return;
    }
    let took_s = took_s(&run).expect("all frames arrive before the end");
    // The first frames find a full bucket, which holds tokens for two.
    let least_s = f64::from((FRAMES - 3) * BITS) / f64::from(RATE_BITS_PER_S);
    assert!(
        took_s >= least_s,
        "the burst took {took_s} s in place of {least_s} s"
    );
    let manifest = run.manifest();
    assert!(manifest.wall_duration < manifest.virtual_duration);
}

/// If the frames of a link that goes down still counted, time would not skip any more.
#[test]
fn time_skips_again_after_a_queue_was_emptied() {
    let down = "time.sleep(0.5)\nsubprocess.run(['ip', 'link', 'set', 'eth0', 'down'], check=True)";
    let lab = burst("", down);
    let scenario = lab.path().join("scenario.toml");
    let text = std::fs::read_to_string(&scenario).expect("it can be read");
    // The slow link is that of the source, which takes it down.
    let text = text.replace(
        "{ between = [\"a\", \"s\"] }",
        &format!("{{ between = [\"a\", \"s\"]{SLOW} }}"),
    );
    std::fs::write(&scenario, text).expect("it can be written");
    let run = lab.run(&[]).succeeded();
    let manifest = run.manifest();
    assert!(
        manifest.wall_duration.as_s_f64() < manifest.virtual_duration.as_s_f64() / 2.0,
        "{}",
        run.output()
    );
}

#[test]
fn frames_that_time_overtakes_are_a_doubt() {
    // A queue that a program adds, on a link without a rate.
    let limited = "
add = 'tc qdisc add dev eth0 root tbf rate 100kbit burst 1600 limit 100000'
subprocess.run(add.split(), check=True)
for _ in range(10):
    s.sendto(bytes(1000), ('10.0.0.2', 9000))
";
    for (rate, more) in [(FAST, ""), ("", limited)] {
        let lab = burst(rate, more);
        let run = lab.run_without_bpf(&[]).succeeded();
        assert!(is_doubted(&run), "{}", run.output());
        let lab = burst(rate, more);
        let run = lab.run(&["time.compute=none"]).succeeded();
        assert!(is_doubted(&run), "{}", run.output());
    }
}

/// The link needs minutes for the burst, so the frames are held back whenever they are asked about.
#[test]
fn a_query_names_the_queue_that_time_waits_for() {
    if !has_bpf() {
        return;
    }
    let lab = burst(SLOW, "");
    let mut run = lab.start(&[]);
    run.wait_for("the kernel is not named as a cause", |run| {
        let status = run.control("query --why").unwrap_or_default();
        let causes = status["why"]["causes"].as_array().cloned();
        let mut causes = causes.unwrap_or_default().into_iter();
        causes.any(|cause| cause["kind"] == "kernel")
    });
    run.stop();
}
