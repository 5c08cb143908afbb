//! Run over a simulated network: two hosts in different subnets, with a router and 200 ms between
//! them. Needs root.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::passed;

const SCENARIO: &str = r#"
schema = "timeloom/1"
name = "far"
time = { duration = "8 s", mode = "skip" }
[network]
routers = ["r1", "r2"]
[system]
links = [
    { between = ["near", "r1"] },
    { between = ["r1", "r2"], rate = "10 Mbit/s", delay = "200 ms" },
    { between = ["r2", "far"] },
]
[system.hosts.far]
address = "10.2.0.2/24"
[[system.hosts.far.programs]]
name = "echo"
run = ["python3", "-u", "-c", """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 9))
print("listening")
while True:
    s.sendto(*s.recvfrom(2000))
"""]
ready = "log:listening"
[system.hosts.near]
address = "10.1.0.2/24"
[[system.hosts.near.programs]]
name = "ask"
run = ["python3", "-u", "-c", """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(5):
    began = time.monotonic()
    s.sendto(b"x" * 1000, ("10.2.0.2", 9))
    s.recv(2000)
    print("took", time.monotonic() - began)
"""]
after = ["echo"]
essential = false
[[capture]]
link = ["r1", "r2"]
"#;

#[test]
fn packets_take_their_virtual_time_between_subnets() {
    let base = std::env::temp_dir().join(format!("timeloom-simulated-{}", std::process::id()));
    fs::create_dir_all(&base).unwrap();
    let file = base.join("far.toml");
    fs::write(&file, SCENARIO).unwrap();
    for mode in ["skip", "virtual", "stepped"] {
        let directory = base.join(mode);
        let run = Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .arg("run")
            .arg(&file)
            .args(["--set", &format!("time.mode={mode}"), "-o"])
            .arg(&directory)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if mode == "stepped" {
            grant_all(&format!("run-{}", run.id()));
        }
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(passed(output.status), "{mode}: {said}");
        check(&directory, mode);
    }
    fs::remove_dir_all(&base).unwrap();
}

/// Grants time like a simulator that computes 30 ms for each 70 ms. Packets in flight are then
/// stopped many times on their way.
fn grant_all(session: &str) {
    let script = "
import sys, time
from timeloom.control import Granter
with Granter(sys.argv[1], wait_s=60) as testbed:
    while not testbed.standing.ended:
        time.sleep(0.03)
        testbed.grant_ns(testbed.standing.now_ns + 70_000_000)
";
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../python");
    let granter = Command::new("python3")
        .args(["-c", script, session])
        .env("PYTHONPATH", python)
        .status();
    assert!(granter.unwrap().success());
}

fn check(directory: &Path, mode: &str) {
    let log = fs::read_to_string(directory.join("logs/ask.log")).unwrap();
    let times: Vec<f64> = log
        .lines()
        .filter_map(|line| line.split("took ").nth(1)?.trim().parse().ok())
        .collect();
    assert_eq!(times.len(), 5, "{mode}: {log}");
    // Twice the delay, and the time for 1066 bytes at 10 Mbit/s in each direction.
    let least = 0.4 + 2.0 * 1066.0 * 8.0 / 10e6;
    assert!(times.iter().all(|took| *took >= least), "{mode}: {times:?}");
    let capture = fs::read(directory.join("net/r1-r2.pcapng")).unwrap();
    let payload = [b'x'; 1000];
    let found = capture.windows(1000).filter(|part| *part == payload);
    assert_eq!(found.count(), 10, "{mode}: five there and five back");
}

const CLOCKS: &str = r#"
schema = "timeloom/1"
name = "clocks"
seed = 5
time = { duration = "40 s", mode = "skip" }
[network]
routers = []
[network.ptp]
profile = "c37.238-2017"
transport = "l2"
[network.clocks]
gm = { role = "grandmaster" }
s1 = { role = "transparent", clock = { frequency = "30 ppm", wander = "0.01 ppm" } }
s2 = { role = "transparent", clock = { frequency = "-45 ppm", wander = "0.01 ppm" } }
slave = { role = "slave", resolution = "8 ns", clock = { frequency = "-20 ppm" } }
[system]
switches = ["s1", "s2"]
links = [
    { between = ["gm", "s1"] },
    { between = ["s1", "s2"], rate = "10 Mbit/s", delay = "1 ms" },
    { between = ["s2", "slave"] },
]
[[check]]
name = "begins-behind"
assert = "first(slave.clock.offset) < -5e-5"
[[check]]
name = "not-ahead"
assert = "max(slave.clock.offset) < 1e-7 from 25 s"
[[check]]
name = "not-behind"
assert = "min(slave.clock.offset) > -1e-7 from 25 s"
[[check]]
name = "measured"
assert = "max(slave.ptp.offset) < 1e-7 from 25 s"
"#;

/// The scenario's checks are the test. They limit the true and the measured error of a slave whose
/// oscillator is 20 ppm slow.
#[test]
fn a_simulated_slave_follows_its_grandmaster_through_transparent_switches() {
    let base = std::env::temp_dir().join(format!("timeloom-clocks-{}", std::process::id()));
    fs::create_dir_all(&base).unwrap();
    let file = base.join("clocks.toml");
    fs::write(&file, CLOCKS).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .arg("run")
        .arg(&file)
        .arg("-o")
        .arg(base.join("run"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(passed(output.status), "{said}");
    fs::remove_dir_all(&base).unwrap();
}
