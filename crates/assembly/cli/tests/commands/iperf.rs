//! Traffic in a simulated network, or in the tunnel between two agents, must stop with the testbed:
//! iperf3 must lose nothing because of pauses, and must retransmit nothing. `scripts/iperf-pauses`
//! compares its speed with an undisturbed run.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use timeloom_test_support::{need, need_root, wait_for};

use crate::support::machines::{Machines, NAMES, let_go, timeloom};
use crate::support::{Scratch, passed};

/// Commands that make the kernel's timers longer than any pause, because they continue during one.
const UNNOTICED: &str = "ip route change 10.0.0.0/24 dev eth0 rto_min 60s && \
                         echo 0 > /proc/sys/net/ipv4/tcp_early_retrans &&";

/// A window that fits into the queue of the link, so that without pauses nothing is lost.
const TCP: &str = "-w 256K";
const UDP: &str = "-u -b 1M -l 1400";

fn scenario(duration: &str, prepare: &str, client: &str, links: &str) -> String {
    format!(
        r#"
        schema = "timeloom/1"
        name = "iperf"
        [time]
        duration = "{duration}"
        [system.hosts.b]
        address = "10.0.0.2/24"
        [[system.hosts.b.programs]]
        name = "server"
        run = ["sh", "-c", "{prepare} exec iperf3 -s"]
        ready = "tcp:5201"
        [system.hosts.a]
        address = "10.0.0.1/24"
        [[system.hosts.a.programs]]
        name = "client"
        run = ["sh", "-c", "{prepare} exec iperf3 -c 10.0.0.2 -t 4 -i 0 -J {client}"]
        after = ["server"]
        essential = false
        {links}
        "#
    )
}

const SIMULATED: &str = r#"
    [network]
    link = { rate = "20 Mbit/s", delay = "5 ms", queue = 1000 }
    [system]
    switches = ["s1"]
    links = [{ between = ["a", "s1"] }, { between = ["s1", "b"] }]
"#;

/// Makes two holds in the middle of the transfer. Each is longer than the kernel's retransmission
/// timeout (200 ms, and the variation of the round trip). `hold` begins one, and returns the
/// process that keeps it.
fn disturb(virtual_ns: impl Fn() -> Option<i64>, hold: impl Fn(usize) -> (Child, i64)) {
    for turn in 0..2 {
        let after = (turn as i64 * 12 + 15) * 100_000_000;
        wait_for("the transfer is under way", || {
            (virtual_ns()? > after).then_some(())
        });
        let (held, _) = hold(turn);
        std::thread::sleep(Duration::from_millis(1_500));
        let_go(held);
    }
}

/// Returns the report of iperf3 from a log whose lines have timestamps; `None` until the report is
/// complete.
fn heard(log: &Path) -> Option<Value> {
    let text = fs::read_to_string(log).ok()?;
    let lines = text.lines().filter_map(|line| line.split_once("] "));
    let text: String = lines.map(|(_, words)| words).collect();
    serde_json::from_str(&text).ok()
}

/// Returns the summary at the end of iperf3's report.
fn said(log: &Path) -> Value {
    let said = heard(log).unwrap_or_else(|| panic!("{:?}", fs::read_to_string(log)));
    assert!(said["error"].is_null(), "{said}");
    said["end"].clone()
}

/// Runs iperf3 across a simulated network, and returns its summary.
fn simulated(tag: &str, prepare: &str, client: &str) -> Value {
    need_root();
    need("iperf3", "iperf3");
    let scratch = Scratch::new(tag);
    let name = format!("{tag}-{}", std::process::id());
    fs::write(
        scratch.path("case.toml"),
        scenario("600 s", prepare, client, SIMULATED),
    )
    .expect("a file");
    let mut run = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["run", "--name", &name, "-o", &scratch.text("run")])
        .arg(scratch.path("case.toml"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("timeloom run");
    let now = || {
        let asked = timeloom(&["query", "--json", "--name", &name]);
        let status: Value = serde_json::from_slice(&asked.stdout).ok()?;
        status["virtual_ns"].as_i64()
    };
    disturb(now, |_| Machines::hold_session(&name));
    let log = scratch.path("run/logs/client.log");
    wait_for("iperf3's last word", || {
        let ended = run.try_wait().expect("our own child");
        assert_eq!(ended, None, "it ends too early");
        heard(&log)
    });
    let told = Command::new("kill").arg(run.id().to_string()).status();
    assert!(told.is_ok_and(|status| status.success()));
    let output = run.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(1),
        "stopped from outside: {words}"
    );
    said(&log)
}

/// Runs iperf3 across the tunnel between two agents, which hold one after the other.
fn tunnel(tag: &str, prepare: &str, client: &str) -> Value {
    need("iperf3", "iperf3");
    let machines = Machines::new(tag, 2);
    let _agents = machines.serving(2);
    let links = format!(
        r#"
        [system]
        links = [{{ between = ["a", "b"], rate = "20 Mbit/s" }}]
        [placement]
        key_file = "{}"
        patience = "60 s"
        nodes = {{ a = "a", b = "b" }}
        agents = {{ a = {{ address = "10.9.0.1:5500" }}, b = {{ address = "10.9.0.2:5500" }} }}
        "#,
        machines.scratch.text("key")
    );
    let case = machines.scratch.path("case.toml");
    fs::write(&case, scenario("6 s", prepare, client, &links)).expect("a file");
    let run = machines.start(&case, &[]);
    let now = || machines.query(1)["virtual_ns"].as_i64();
    disturb(now, |turn| machines.hold(turn % NAMES.len()));
    let output = run.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(passed(output.status), "{words}");
    said(&machines.scratch.path("results/logs/client.log"))
}

/// With timers that allow for a pause, nothing may be retransmitted: no answer is lost, and none is
/// so late that the kernel considers it lost. With the kernel's usual timers there are
/// retransmissions, which shows that data were in flight during the pause.
fn sends_nothing_again(over: fn(&str, &str, &str) -> Value, tag: &str) {
    let again = |end: &Value| end["sum_sent"]["retransmits"].as_u64();
    let usual = over(&format!("{tag}-usual"), "", TCP);
    assert!(again(&usual) > Some(0), "{usual}");
    let end = over(tag, UNNOTICED, TCP);
    assert_eq!(again(&end), Some(0), "{end}");
    assert!(end["sum_received"]["bytes"].as_u64() > Some(0), "{end}");
}

fn loses_nothing(over: fn(&str, &str, &str) -> Value, tag: &str) {
    let end = over(tag, "", UDP);
    assert_eq!(end["sum"]["lost_packets"].as_u64(), Some(0), "{end}");
    // The transfer takes 4 s at 1 Mbit/s, by the programs' clock. A busy machine omits only little
    // of it.
    assert!(end["sum"]["packets"].as_u64() > Some(100), "{end}");
}

#[test]
fn tcp_over_a_simulated_network_sends_nothing_again_for_a_pause() {
    sends_nothing_again(simulated, "iperf-net-tcp");
}

#[test]
fn tcp_over_a_tunnel_sends_nothing_again_for_a_pause() {
    sends_nothing_again(tunnel, "iperf-tun-tcp");
}

#[test]
fn udp_over_a_simulated_network_loses_nothing_by_a_pause() {
    loses_nothing(simulated, "iperf-net-udp");
}

#[test]
fn udp_over_a_tunnel_loses_nothing_by_a_pause() {
    loses_nothing(tunnel, "iperf-tun-udp");
}
