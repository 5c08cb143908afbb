//! Programs that use IPv6: over the kernel's network, over a simulated one, and over one in two
//! engines.

use crate::support::{Lab, Scenario, log_lines};

/// Server for pages of 300,000 bytes, which listens at all addresses of both families.
const WEB: &str = r#"
import socket
server = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening")
while True:
    line, peer = server.accept()
    asked = b""
    while b"\\r\\n\\r\\n" not in asked:
        asked += line.recv(4096)
    print("asked by", peer[0])
    line.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 300000\\r\\n\\r\\n" + b"x" * 300000)
    line.close()
"#;

fn said(lab: &Lab, sets: &[&str], program: &str) -> String {
    let run = lab.run(sets);
    assert!([0, 4].contains(&run.code), "{}", run.output());
    lab.assert_nothing_left();
    for check in run.directory().checks().expect("the checks can be read") {
        assert!(check.passed, "{}: {}", check.name, check.explanation);
    }
    let lines = log_lines(run.path(), program);
    let all: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    all.join("\n")
}

/// Scenario with a host that has IPv4 and IPv6, and one that has only IPv6, at one switch.
const NEAR: &str = r#"
schema = "timeloom/1"
name = "near"
time = { duration = "20 s" }
[system]
switches = ["s1"]
links = [
    { between = ["both", "s1"] },
    { between = ["six", "s1"] },
]
[system.hosts.both]
address = ["10.0.0.1/24", "fd00:5::1/64"]
[[system.hosts.both.programs]]
name = "web"
run = ["python3", "-u", "-S", "-c", """WEB"""]
ready = "log:listening"
ready_timeout = "15 s"
[system.hosts.six]
address = "fd00:5::2/64"
[[system.hosts.six.programs]]
name = "ask"
run = ["sh", "-c", """
ping -6 -n -c 3 -i 0.2 -W 10 fd00:5::1
ping -6 -n -c 1 -W 10 -s 4000 fd00:5::1
ping -6 -n -c 1 -W 10 ::1
curl -sS -o /dev/null -w 'got %{size_download} bytes, %{http_code}\\n' 'http://[fd00:5::1]/'
curl -sS -m 5 -o /dev/null http://10.0.0.1/ || echo no IPv4
"""]
after = ["web"]
essential = false
"#;

#[test]
fn programs_talk_over_ipv6_in_the_kernels_network() {
    let lab = Lab::with_text(&NEAR.replace("WEB", WEB));
    let text = said(&lab, &[], "ask");
    assert!(text.contains("3 packets transmitted, 3 received"), "{text}");
    assert!(
        text.contains("4008 bytes from fd00:5::1"),
        "fragments: {text}"
    );
    assert!(text.contains("64 bytes from ::1"), "to itself: {text}");
    assert!(text.contains("got 300000 bytes, 200"), "{text}");
    assert!(text.contains("no IPv4"), "{text}");
}

/// Both hosts query a device over both families. The device must report the writer in its events.
#[test]
fn a_device_is_read_and_written_over_ipv6_and_ipv4() {
    // Function 16 of Modbus: writes two holding registers from address 0 on, which are the number
    // 2.5.
    let script = r#"
import socket
for to in ["fd00:5::10", "10.0.0.10"]:
    with socket.create_connection((to, 502), 5) as line:
        line.sendall(bytes([0, 1, 0, 0, 0, 11, 1, 16, 0, 0, 0, 2, 4, 0x40, 0x20, 0, 0]))
        print("answer", to, line.recv(260).hex(), flush=True)
"#;
    let scenario = Scenario::lasting("600 s")
        .program(
            'a',
            "client",
            &["python3", "-c", script],
            "essential = false",
        )
        .plant("{}");
    let mut text = scenario.to_toml();
    for last in ["1", "2", "10"] {
        let v4 = format!("\"10.0.0.{last}/24\"");
        text = text.replace(&v4, &format!("[{v4}, \"fd00:5::{last}/64\"]"));
    }
    let lab = Lab::with_text(&text);
    let mut run = lab.start(&[]);
    run.wait_for_line("client", "answer 10.0.0.10");
    let at = run.virtual_s().expect("it runs");
    run.wait_until(at + 0.2);
    let run = run.stop();
    let lines = log_lines(&lab.run_path(), "client");
    let good = |(_, line): &&(i64, String)| line.ends_with("000100000006011000000002");
    assert_eq!(lines.iter().filter(good).count(), 2, "{lines:?}");
    let events = run.directory().events().expect("readable");
    let texts: Vec<&str> = events.iter().map(|event| &*event.text).collect();
    for from in ["fd00:5::1", "10.0.0.1"] {
        let told = texts
            .iter()
            .any(|text| text.contains("a/client") && text.contains(from));
        assert!(told, "{from}: {texts:?}");
    }
}

/// Scenario with 20 ms between two routers, over a link with an MTU of 1,400 bytes. `served` is
/// simulated.
const FAR: &str = r#"
schema = "timeloom/1"
name = "far"
time = { duration = "25 s" }
[network]
routers = ["r1", "r2"]
[network.hosts.served]
address = ["10.2.0.9/24", "fd00:2::9/64"]
services = [{ kind = "http", bytes = 50000 }]
[system]
switches = ["lan"]
links = [
    { between = ["near", "r1"] },
    { between = ["r1", "r2"], rate = "100 Mbit/s", delay = "20 ms", mtu = 1400 },
    { between = ["r2", "lan"] },
    { between = ["lan", "far"] },
    { between = ["lan", "served"] },
]
[system.hosts.far]
address = "fd00:2::2/64"
[[system.hosts.far.programs]]
name = "web"
run = ["python3", "-u", "-S", "-c", """WEB"""]
ready = "log:listening"
ready_timeout = "15 s"
[[system.hosts.far.programs]]
name = "measured"
run = ["iperf3", "-s", "-1", "--forceflush"]
ready = "tcp:5201"
ready_timeout = "15 s"
essential = false
[system.hosts.near]
address = ["10.1.0.2/24", "fd00:1::2/64"]
[[system.hosts.near.programs]]
name = "ask"
run = ["sh", "-c", """
ping -6 -n -c 5 -i 0.2 -W 10 fd00:2::2
ping -6 -n -c 1 -W 10 -t 1 fd00:2::2
ping -6 -n -c 1 -W 10 fd00:2::77
ping -6 -n -c 1 -W 10 fd00:2::9
ping -6 -n -c 1 -W 10 -M do -s 1452 fd00:2::2
traceroute -6 -n -q 1 -w 5 fd00:2::2
curl -sS -o /dev/null -w 'real: %{size_download} bytes, %{http_code}\\n' 'http://[fd00:2::2]/'
curl -sS -o /dev/null -w 'served: %{size_download} bytes, %{http_code}\\n' 'http://[fd00:2::9]/'
curl -sS -o /dev/null -w 'old: %{size_download} bytes, %{http_code}\\n' http://10.2.0.9/
iperf3 -6 -c fd00:2::2 -n 2M --forceflush
"""]
after = ["web", "measured"]
essential = false
[[capture]]
link = ["r1", "r2"]
"#;

fn far(sets: &[&str]) {
    let lab = Lab::with_text(&FAR.replace("WEB", WEB));
    let text = said(&lab, sets, "ask");
    assert!(text.contains("5 packets transmitted, 5 received"), "{text}");
    for part in [
        "From fd00:1::1 icmp_seq=1 Time exceeded: Hop limit",
        "From fd54:4c00::2 icmp_seq=1 Destination unreachable: Address unreachable",
        "64 bytes from fd00:2::9",
        "mtu=1400",
        "real: 300000 bytes, 200",
        "served: 50000 bytes, 200",
        "old: 50000 bytes, 200",
        "iperf Done",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let hops = text
        .lines()
        .skip_while(|line| !line.starts_with("traceroute"));
    let hops: Vec<&str> = hops.skip(1).take(3).collect();
    let hop = |number: usize| hops[number].split_whitespace().nth(1);
    assert_eq!(hop(0), Some("fd00:1::1"), "{text}");
    assert_eq!(hop(1), Some("fd54:4c00::2"), "a generated address: {text}");
    assert_eq!(hop(2), Some("fd00:2::2"), "{text}");
    let took = text
        .lines()
        .filter(|line| line.contains("from fd00:2::2: icmp_seq"));
    let took = took.filter_map(|line| line.split("time=").nth(1)?.split(' ').next());
    let took_ms: Vec<f64> = took.map(|took| took.parse().expect("a number")).collect();
    assert!(
        took_ms.len() >= 5 && took_ms.iter().all(|took| *took >= 40.0),
        "{text}"
    );
}

#[test]
fn programs_talk_over_ipv6_in_a_simulated_network() {
    far(&[]);
}

const PARTS: &str = r#"network.engines.parts={ west = ["r1"], east = ["r2", "lan", "served"] }"#;

#[test]
fn programs_talk_over_ipv6_across_a_cut() {
    far(&[PARTS]);
}

#[test]
fn programs_talk_over_ipv6_between_engines_that_wait() {
    far(&[PARTS, "network.engines.mode=exact"]);
}

#[test]
fn programs_talk_over_ipv6_between_engines_that_are_processes() {
    far(&[PARTS, "network.engines.processes=true"]);
}

#[test]
fn programs_talk_over_ipv6_where_time_skips() {
    far(&["time.mode=skip"]);
}

#[test]
fn programs_talk_over_ipv6_where_computing_takes_no_time() {
    far(&["time.mode=skip", "time.compute=none"]);
}
