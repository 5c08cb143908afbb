//! Links of the kernel with a rate hold frames back in real time. Where time skips, it must pass at
//! that pace meanwhile; where it does not, the run must not be trusted.

use crate::support::{Finished, Lab, log_lines};

/// Frames of the burst, with 1000 bytes each. The bucket passes the first at once.
const FRAMES: u32 = 50;

/// Payload of a frame, with the headers of UDP, IPv4 and Ethernet and the overhead of the wire.
const BITS: u32 = 8 * (1000 + 42 + 24);

const RATE_BITS_PER_S: u32 = 1_000_000;

/// Another program sleeps, so that there is always an instant to which time could skip.
fn burst() -> Lab {
    let lab = Lab::with_text(
        r#"
schema = "timeloom/1"
name = "held-frames"
[time]
duration = "20 s"
mode = "skip"
start = "2026-01-01T00:00:00Z"
[system]
switches = ["s"]
links = [
    { between = ["a", "s"] },
    { between = ["b", "s"], rate = "1 Mbit/s" },
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
"#,
    );
    let sink = format!(
        "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
s.bind(('0.0.0.0', 9000))
print('listening')
s.recv(2000)
first = time.monotonic()
for _ in range({FRAMES} - 1):
    s.recv(2000)
print('took', time.monotonic() - first)
time.sleep(100)
"
    );
    let source = format!(
        "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
time.sleep(5)
for _ in range({FRAMES}):
    s.sendto(bytes(1000), ('10.0.0.2', 9000))
time.sleep(100)
"
    );
    for (name, text) in [("sink.py", sink), ("source.py", source)] {
        std::fs::write(lab.path().join(name), text).expect("it can be written");
    }
    lab
}

/// Returns the virtual seconds between the first frame and the last; `None` if the last did not
/// arrive.
fn took_s(run: &Finished) -> Option<f64> {
    let lines = log_lines(run.path(), "sink");
    let took = lines
        .iter()
        .find_map(|(_, line)| line.strip_prefix("took "))?;
    Some(took.parse().expect("a number"))
}

/// Returns true if a reason for doubt names the links.
fn is_doubted(run: &Finished) -> bool {
    let manifest = run.manifest();
    manifest
        .untrusted
        .iter()
        .any(|doubt| doubt.contains("Links with a rate"))
}

/// If time skipped over frames of the burst, it would be at the end of the run at once.
#[test]
fn time_does_not_skip_while_a_link_holds_frames_back() {
    let lab = burst();
    let run = lab.run(&[]).succeeded();
    // Without BPF in the kernel, the run is doubted, as in the next test.
    if is_doubted(&run) {
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

#[test]
fn frames_that_time_overtakes_are_a_doubt() {
    let lab = burst();
    assert!(is_doubted(&lab.run_without_bpf(&[]).succeeded()));
    let lab = burst();
    let run = lab.run(&["time.compute=none"]).succeeded();
    assert!(is_doubted(&run), "{}", run.output());
}
