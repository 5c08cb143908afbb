//! TCP with lost frames while time skips. The simulated network keeps the timers of the hosts'
//! kernels. Timers that it does not keep must make a run untrusted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Finished, Lab, log_lines};

const NONE: [&str; 2] = ["time.mode=skip", "time.compute=none"];

/// Program that drops frames to a host, in several intervals of the session's time.
const DROP: &str = r#"
import subprocess, sys, time
BEGIN = 1767225600
def tc(*words):
    subprocess.run(["tc", *words], check=True)
for window in sys.argv[1:]:
    since, until = map(float, window.split("-"))
    time.sleep(BEGIN + since - time.time())
    tc("qdisc", "add", "dev", "eth0", "ingress")
    tc("filter", "add", "dev", "eth0", "ingress", "bpf", "da", "bytecode", "1,6 0 0 2")
    time.sleep(BEGIN + until - time.time())
    tc("qdisc", "del", "dev", "eth0", "ingress")
"#;

const SERVER: &str = r#"
import socket, sys, threading, time
def serve(one, number):
    while (data := one.recv(65536)):
        if data[-1:] == b"?":
            one.sendall(b"!")
    print(f"end {number} {time.time() - 1767225600:.4f}")
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listening = socket.create_server((sys.argv[1], 5000), family=family)
print("up")
number = 0
while True:
    threading.Thread(target=serve, args=(listening.accept()[0], number)).start()
    number += 1
"#;

/// Program that prints the duration of each of its steps, in seconds.
const CLIENT: &str = r#"
import socket, time
BEGIN = 1767225600
def connect():
    return socket.create_connection(("10.0.0.2", 5000))
def ask(one, what=b"?"):
    one.sendall(what)
    one.recv(1)
def timed(name, since, act):
    time.sleep(BEGIN + since - time.time())
    began = time.time()
    act()
    print(f"{name} {time.time() - began:.4f}")
time.sleep(1)
connect().close()  # the neighbour is known
timed("syn", 11.1, lambda: connect().close())
timed("syn-ack", 14.1, lambda: connect().close())
one = connect()
ask(one)
timed("tail", 17.1, lambda: ask(one))
timed("delayed", 18, lambda: (one.sendall(b"a"), ask(one)))
timed("close", 20.1, one.close)
one = connect()
ask(one, bytes(200000) + b"?")
timed("down", 30.1, lambda: ask(one, bytes(200000) + b"?"))
"#;

fn two_hosts(loss: &str, [near, far]: [&str; 2], [client, server]: [&str; 2]) -> String {
    format!(
        r#"
schema = "timeloom/1"
name = "lost-frames"
seed = 3
[time]
duration = "300 s"
start = "2026-01-01T00:00:00Z"
[network]
[system]
switches = ["s"]
links = [
    {{ between = ["a", "s"], delay = "10 ms"{loss} }},
    {{ between = ["b", "s"] }},
]
[system.hosts.a]
address = "{near}"
[[system.hosts.a.programs]]
name = "client"
essential = false
{client}
[system.hosts.b]
address = "{far}"
[[system.hosts.b.programs]]
name = "server"
essential = false
{server}
"#
    )
}

const IPV4: [&str; 2] = ["10.0.0.1/24", "10.0.0.2/24"];
const IPV6: [&str; 2] = ["fd00::1/64", "fd00::2/64"];

/// Returns a scenario of a client and a server on a link that loses this share of frames.
fn lossy(share: &str) -> String {
    let server = r#"run = ["python3", "-u", "server.py", "10.0.0.2"]"#;
    let client = r#"run = ["python3", "-u", "client.py"]"#;
    two_hosts(&format!(", loss = {share}"), IPV4, [client, server])
}

fn lab(text: &str, client: &str) -> Lab {
    let lab = Lab::with_text(text);
    for (name, text) in [
        ("drop.py", DROP),
        ("server.py", SERVER),
        ("client.py", client),
    ] {
        std::fs::write(lab.path().join(name), text).expect("it can be written");
    }
    lab
}

/// Returns the last word of each printed line, which is a number, with the words before it.
fn said(run: &Finished, program: &str) -> Vec<(String, f64)> {
    let lines = log_lines(run.path(), program).into_iter();
    let number = |(_, line): (i64, String)| {
        let (name, number) = line.rsplit_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    lines.filter_map(number).collect()
}

fn assert_trusted(run: &Finished) {
    let manifest = run.manifest();
    let doubts = (manifest.untrusted, manifest.degraded_modes);
    assert!(
        doubts.0.is_empty() && doubts.1.is_empty(),
        "{doubts:?}\n{}",
        run.output()
    );
}

#[track_caller]
fn assert_doubted(run: &Finished, words: &str) {
    let untrusted = run.manifest().untrusted;
    let is_said = untrusted.iter().any(|why| why.contains(words));
    assert!(is_said, "{untrusted:?}\n{}", run.output());
    assert!(
        untrusted.iter().all(|why| why.contains("virtual")),
        "a remedy: {untrusted:?}"
    );
}

/// A lost SYN, SYN-ACK, request and FIN must be retransmitted at the instants at which Linux would
/// do so. An acknowledgement must be delayed as by Linux. After ten seconds without a link, all
/// connections must continue. Two runs must agree.
#[test]
fn lost_segments_are_retransmitted_at_the_instants_of_the_kernel() {
    let client = r#"run = ["python3", "-u", "client.py"]
        [[system.hosts.a.programs]]
        name = "drop"
        essential = false
        run = ["python3", "-u", "drop.py", "14-14.5"]"#;
    let server = r#"run = ["python3", "-u", "server.py", "10.0.0.2"]
        [[system.hosts.b.programs]]
        name = "drop-too"
        essential = false
        run = ["python3", "-u", "drop.py", "11-11.5", "17-17.2", "20-20.2", "30-40"]"#;
    let text = two_hosts("", IPV4, [client, server]);
    let runs = [(); 2].map(|()| {
        let lab = lab(&text, CLIENT);
        let run = lab.run(&NONE).succeeded();
        assert_trusted(&run);
        let all = ["client", "server"].map(|name| log_lines(run.path(), name));
        (said(&run, "client"), said(&run, "server"), all)
    });
    let [(client, server, one), (.., two)] = &runs;
    let took = |name: &str| client.iter().find(|(it, _)| it == name).expect(name).1;
    // For a timer of a second, the kernel's timer wheel is up to 32 ms late.
    let about = |name: &str, least: f64, most: f64| {
        assert!(
            (least..most).contains(&took(name)),
            "{name} took {}",
            took(name)
        );
    };
    about("syn", 1.016, 1.056);
    about("syn-ack", 1.016, 1.056);
    about("tail", 0.24, 0.29);
    about("delayed", 0.06, 0.09);
    let fin = server
        .iter()
        .find(|(it, _)| it == "end 3")
        .expect("end 3")
        .1;
    assert!((20.32..20.4).contains(&fin), "the FIN came at {fin}");
    // Retransmissions follow after 0.2, 0.4, 0.9, 1.7 s and so on.
    about("down", 10.0, 17.0);
    assert_eq!(one, two);
}

/// Program whose requests lose one in ten frames, in each direction.
const REQUESTS: &str = r#"
import socket, sys, time
import os
one = socket.create_connection((sys.argv[1], 5000))
began = time.time()
for _ in range(80):
    one.sendall(b"?")
    one.recv(1)
    time.sleep(0.25)
print(f"took {time.time() - began:.4f}")
"#;

/// Without a loss, 80 requests take 21.6 s. About 16 of them have a loss, and each loss costs at
/// least 0.24 s.
#[test]
fn requests_over_a_link_that_loses_frames_are_answered_all() {
    for (addresses, sets) in [
        (IPV4, &NONE[..]),
        (IPV6, &NONE[..]),
        (IPV4, &["time.mode=skip"][..]),
    ] {
        let far = addresses[1].split('/').next().expect("an address");
        let client =
            format!(r#"run = ["python3", "-u", "client.py", "{far}"]"#) + "\nafter = [\"server\"]";
        let server =
            format!(r#"run = ["python3", "-u", "server.py", "{far}"]"#) + "\nready = \"log:up\"";
        let text = two_hosts(", loss = 0.1", addresses, [&client, &server]);
        let lab = lab(&text, REQUESTS);
        let run = lab.run(sets);
        let took = said(&run, "client");
        let took = took.first().unwrap_or_else(|| panic!("{}", run.output())).1;
        assert!((23.0..40.0).contains(&took), "{took} s");
        let untrusted = run.manifest().untrusted.into_iter();
        // If computing takes time, this machine may be too slow, which is another reason for doubt.
        let doubts: Vec<_> = untrusted.filter(|it| !it.contains("too slow")).collect();
        assert!(doubts.is_empty(), "{doubts:?}");
    }
}

/// On links of the kernel, lost frames are retransmitted in real time, so the run must not be
/// trusted.
#[test]
fn time_that_jumps_over_the_timers_of_a_kernel_is_not_trusted() {
    let request = r#"run = ["python3", "-u", "client.py", "10.0.0.2"]"#;
    let server = r#"run = ["python3", "-u", "server.py", "10.0.0.2"]
        [[system.hosts.b.programs]]
        name = "drop"
        essential = false
        run = ["python3", "-u", "drop.py", "2-20"]"#;
    let text = two_hosts("", IPV4, [request, server]);
    let text = text
        .replace("[network]", "")
        .replace(r#", delay = "10 ms""#, "");
    let client = "
import socket, time
time.sleep(1)
one = socket.create_connection(('10.0.0.2', 5000))
time.sleep(2)
one.sendall(b'?')
one.recv(1)
";
    for sets in [&["time.mode=skip"][..], &NONE] {
        let lab = lab(&text, client);
        let run = lab.run(sets);
        assert_doubted(&run, "jumped over the timers of the TCP of a");
        assert_eq!(run.code, 4, "{}", run.output());
    }
    let client = client.replace("time.sleep(2)", "");
    let lab = lab(&text, &client);
    let run = lab.run(&NONE).succeeded();
    assert_trusted(&run);
}

/// Program that writes in two parts and waits for an answer, 100 times. The kernel sends the second
/// part only when the first is acknowledged.
const TWO_PARTS: &str = "
import socket, sys, time
one = socket.create_connection((sys.argv[1], 5000))
began = time.time()
for _ in range(100):
    one.sendall(b'a')
    one.sendall(b'?')
    one.recv(1)
print('took', time.time() - began)
";

/// Time must not jump over the kernel's delay of an acknowledgement: on links of the kernel, and on
/// the way from a host to itself.
#[test]
fn acknowledgements_are_not_delayed_in_real_time() {
    let program =
        |name: &str, address: &str| format!(r#"run = ["python3", "-u", "{name}.py", "{address}"]"#);
    for (server, address) in [("", "127.0.0.1"), ("", "10.0.0.1"), ("far", "10.0.0.2")] {
        let serve = program("server", address) + "\nready = \"log:up\"";
        let ask = program("client", address) + "\nafter = [\"server\"]";
        let mut text = two_hosts("", IPV4, [&ask, &serve]);
        if server == "far" {
            text = text
                .replace("[network]", "")
                .replace(r#", delay = "10 ms""#, "");
        } else {
            text = text.replace("system.hosts.b.programs", "system.hosts.a.programs");
        }
        for sets in [&["time.mode=skip"][..], &NONE] {
            if server == "far" && sets == NONE {
                continue;
            }
            let lab = lab(&text, TWO_PARTS);
            let run = lab.run(sets).succeeded();
            assert_trusted(&run);
            let took = said(&run, "client");
            assert!(took[0].1 < 1.0, "{took:?} at {address} with {sets:?}");
        }
    }
}

/// The cases are an absent host, a congestion control that paces by time, limits and probes of the
/// kernel in real time, settings that a program changes, and a namespace that a program makes.
#[test]
fn differences_from_the_kernels_tcp_make_a_run_untrusted() {
    let server = r#"run = ["python3", "-u", "server.py", "10.0.0.2"]
        [[system.hosts.b.programs]]
        name = "drop"
        essential = false
        run = ["python3", "-u", "drop.py", "2-20"]"#;
    let client = r#"run = ["python3", "-u", "client.py"]"#;
    let text = two_hosts("", IPV4, [client, server]);
    let ask = |address: &str, option: &str, value: &str| {
        format!(
            "
import socket, time
time.sleep(1)
one = socket.socket()
one.setsockopt(socket.IPPROTO_TCP, socket.{option}, {value})
one.setblocking(False)
one.connect_ex(('{address}', 5000))
time.sleep(2)
one.send(b'?') if '{address}' == '10.0.0.2' else None
time.sleep(200)
"
        )
    };
    let change = "
import time
open('/proc/sys/net/ipv4/tcp_early_retrans', 'w').write('3')
time.sleep(10)
";
    let elsewhere = "
import subprocess, sys, time
program = (
    'import socket, subprocess, time\\n'
    'subprocess.run([\"ip\", \"link\", \"set\", \"lo\", \"up\"], check=True)\\n'
    'listening = socket.create_server((\"127.0.0.1\", 5000))\\n'
    'one = socket.create_connection((\"127.0.0.1\", 5000))\\n'
    'time.sleep(1000)\\n'
)
subprocess.run(['unshare', '-n', sys.executable, '-c', program])
";
    for (client, words) in [
        (
            ask("10.0.0.9", "TCP_NODELAY", "1"),
            "neighbours did not answer",
        ),
        (
            ask("10.0.0.2", "TCP_CONGESTION", "b'bbr'"),
            "have Reno where they asked",
        ),
        (
            ask("10.0.0.2", "TCP_USER_TIMEOUT", "5000"),
            "TCP_USER_TIMEOUT",
        ),
        (ask("10.0.0.2", "TCP_SYNCNT", "1"), "TCP_SYNCNT"),
        (ask("10.0.0.2", "TCP_KEEPIDLE", "5"), "keep-alive"),
        (change.to_owned(), "net.ipv4.tcp_early_retrans from 0 to 3"),
        (elsewhere.to_owned(), "network namespace of its own"),
    ] {
        assert_doubted(&lab(&text, &client).run(&NONE), words);
    }
}

/// Losses of one in five frames were not compared with a kernel's.
#[test]
fn losses_beyond_the_comparison_are_not_trusted() {
    let server = r#"run = ["python3", "-u", "server.py", "10.0.0.2"]"#;
    let client = r#"run = ["python3", "-u", "client.py", "10.0.0.2"]"#;
    let bulk = "
import socket, sys, time
time.sleep(1)
one = socket.create_connection((sys.argv[1], 5000))
one.sendall(bytes(500_000) + b'?')
one.recv(1)
";
    let requests = format!("import time\ntime.sleep(1)\n{REQUESTS}");
    let text = two_hosts(", loss = 0.2", IPV4, [client, server]);
    for client in [bulk, &requests] {
        assert_doubted(&lab(&text, client).run(&NONE), "compared with a kernel's");
    }
}

/// Programs get CUBIC in virtual time by name.
#[test]
fn programs_have_cubic_in_virtual_time() {
    let text = lossy("0.05");
    let client = "
import socket, time
time.sleep(1)
one = socket.socket()
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'cubic')
one.connect(('10.0.0.2', 5000))
one.sendall(bytes(1_000_000) + b'?')
print('answer', one.recv(1))
print('control', one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16))
";
    for sets in [&["time.mode=skip"][..], &NONE] {
        let lab = lab(&text, client);
        let run = lab.run(sets);
        // On a busy machine mode `skip` may be late, and says so.
        assert!(!run.output().contains("have Reno"), "{}", run.output());
        let lines = log_lines(run.path(), "client");
        for words in ["answer b'!'", "control b'cubic_"] {
            assert!(
                lines.iter().any(|(_, line)| line.starts_with(words)),
                "{lines:?}"
            );
        }
    }
}

/// After a loss, CUBIC's window recovers within some seconds, and Reno's in as many round trips as
/// it lost segments. Over round trips of 0.2 s CUBIC is faster, provided that it measures virtual
/// time: of real time, next to none passes.
#[test]
fn the_window_of_cubic_recovers_in_virtual_time() {
    let server = r#"run = ["python3", "-u", "server.py", "10.0.0.2"]"#;
    let client = r#"run = ["python3", "-u", "client.py"]"#;
    let text = two_hosts(", loss = 0.0005", IPV4, [client, server]).replace("10 ms", "100 ms");
    let duration_by = |control: &str| {
        let client = format!(
            "
import socket, time
time.sleep(1)
one = socket.socket()
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'{control}')
one.connect(('10.0.0.2', 5000))
began = time.time()
one.sendall(bytes(30_000_000) + b'?')
one.recv(1)
print('took', time.time() - began)
"
        );
        let lab = lab(&text, &client);
        let run = lab.run(&NONE);
        assert_trusted(&run);
        let said = said(&run, "client");
        let took = said.iter().find(|(name, _)| name == "took");
        took.unwrap_or_else(|| panic!("{said:?}")).1
    };
    let (cubic, reno) = (duration_by("cubic"), duration_by("reno"));
    println!("30 MB by CUBIC: {cubic} s, by Reno: {reno} s");
    assert!(cubic < 0.8 * reno, "{cubic} s and {reno} s");
}

/// Threads that compute until this value is dropped.
struct BusyThreads(Arc<AtomicBool>);

impl BusyThreads {
    fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..count {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {});
        }
        Self(stop)
    }
}

impl Drop for BusyThreads {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A kernel decides by the machine's time whether a gap is a loss or a reordering. With
/// `compute = "none"` the decision must nevertheless be the same in each run.
#[test]
fn a_transfer_over_a_lossy_link_reproduces_on_a_busy_machine() {
    let text = lossy("0.1");
    let client = "
import socket, time
time.sleep(1)
one = socket.socket()
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'reno')
one.connect(('10.0.0.2', 5000))
began = time.time()
for part in range(20):
    one.sendall(bytes(30_000) + b'?')
    one.recv(1)
    print(part, time.time() - began)
";
    let _busy = BusyThreads::start(3);
    let mut lines = [(); 4].map(|()| {
        let lab = lab(&text, client);
        log_lines(lab.run(&NONE).succeeded().path(), "client")
    });
    assert_eq!(lines[0].len(), 20, "{lines:?}");
    lines.sort();
    assert_eq!(lines[0], lines[3]);
}

/// Repairs of lost segments wait for the machine's time. If all connections waited for each, the
/// kernels would measure ever longer round trips, and decide about losses too late.
#[test]
fn transfers_on_many_lossy_connections_are_trusted_and_reproduce() {
    let text = lossy("0.1");
    let client = "
import socket, threading, time
time.sleep(1)
ends = [0.0] * 60
def go(number):
    one = socket.socket()
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'reno')
    one.connect(('10.0.0.2', 5000))
    one.sendall(bytes(30_000) + b'?')
    one.recv(1)
    ends[number] = time.time() - 1767225600
threads = [threading.Thread(target=go, args=(number,)) for number in range(60)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for end in sorted(ends):  # which of the threads begins first is not determined
    print(f'end {end:.6f}')
";
    let lines = [(); 2].map(|()| {
        let lab = lab(&text, client);
        let run = lab.run(&NONE).succeeded();
        assert_trusted(&run);
        log_lines(run.path(), "client")
    });
    assert_eq!(lines[0].len(), 60, "{lines:?}");
    assert_eq!(lines[0], lines[1]);
}
