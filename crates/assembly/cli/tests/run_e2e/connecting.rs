//! Initial retransmission timeouts of the hosts' kernels. They must be in virtual time, and must
//! not expire while programs compute in zero virtual time.

use crate::support::{Finished, Lab, log_lines};

/// Scenario with a client that connects over 80 ms, and runs the given code once its SYN is in
/// flight; and with a server that runs it once the SYN has arrived. Each prints the retransmissions
/// of its kernel.
const TWO_HOSTS: &str = r#"
schema = "timeloom/1"
name = "connecting"
[network]
[system]
switches = ["core"]
links = [
    { between = ["near", "core"], delay = "20 ms" },
    { between = ["core", "far"], delay = "20 ms" },
]
[system.hosts.near]
address = "10.0.0.1/24"
[[system.hosts.near.programs]]
name = "client"
after = ["server"]
essential = false
run = ["python3", "-u", "-c", """
import select, socket, struct
from common import busy, sent_again, wait_for_go
wait_for_go()
# So that the neighbour is known before.
socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('10.0.0.2', 9))
select.select([], [], [], 0.1)
client = socket.socket()
client.setblocking(False)
client.connect_ex(('10.0.0.2', 80))
busy()
client.setblocking(True)
client.send(b'hello')
assert client.recv(9) == b'hello'
print('sent again', sent_again(), client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[-4])
"""]
[system.hosts.far]
address = "10.0.0.2/24"
[[system.hosts.far.programs]]
name = "server"
ready = "log:listening"
essential = false
run = ["python3", "-u", "-c", """
import socket
from common import busy, sent_again
listening = socket.create_server(('10.0.0.2', 80))
watching = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
print('listening')
packet = b''
while packet[9:10] != b'\\x06':
    packet = watching.recv(99)
busy()
connection, _ = listening.accept()
connection.send(connection.recv(9))
connection.recv(9)
print('sent again', sent_again())
"""]
"#;

/// Code that both programs share. `busy` computes for a number of ticks (1/100 s) of processor
/// time, which the kernel counts, since no other time passes. `wait_for_go` waits for a file of the
/// test.
const COMMON: &str = "
import os, time
COMPUTES_TICKS = {}
def wait_for_go():
    while not os.path.exists('go'):
        time.sleep(0.02)
def busy():
    def ticks():
        fields = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
        return int(fields[11]) + int(fields[12])
    end = ticks() + COMPUTES_TICKS
    while ticks() < end:
        sum(range(100_000))
def sent_again():
    names, values = [line.split() for line in open('/proc/net/snmp') if line.startswith('Tcp:')]
    return int(values[names.index('RetransSegs')])
";

fn lab(scenario: &str, computes_ticks: u32) -> Lab {
    let lab = Lab::with_text(scenario);
    let common = COMMON.replace("{}", &computes_ticks.to_string());
    std::fs::write(lab.path().join("common.py"), common).expect("it can be written");
    lab
}

fn go(lab: &Lab) {
    std::fs::write(lab.path().join("go"), "").expect("it can be written");
}

fn said(lab: &Lab, program: &str) -> Vec<String> {
    let lines = log_lines(&lab.run_path(), program).into_iter();
    lines.map(|(_, line)| line).collect()
}

fn assert_nothing_was_sent_again(lab: &Lab, run: &Finished) {
    assert_eq!(said(lab, "client"), ["sent again 0 0"], "{}", run.output());
    assert_eq!(said(lab, "server"), ["listening", "sent again 0"]);
    let degraded = run.manifest().degraded_modes;
    assert_eq!(degraded, []);
}

/// Programs compute for 1.2 s, which is longer than the kernel's own first timeout of a second.
#[test]
fn no_connection_is_begun_twice_if_computing_takes_no_time() {
    let lab = lab(TWO_HOSTS, 120);
    go(&lab);
    let set = ["time.duration=1 s", "time.mode=skip", "time.compute=none"];
    let run = lab.run(&set).succeeded();
    assert_nothing_was_sent_again(&lab, &run);
}

/// Each direction takes 1.6 s of wall time.
#[test]
fn an_answer_that_is_far_away_in_real_time_is_waited_for() {
    let lab = lab(TWO_HOSTS, 0);
    go(&lab);
    let mut run = lab.start(&["time.duration=60 s", "time.dilation=40"]);
    run.wait_for_line("client", "sent again");
    run.wait_for_line("server", "sent again");
    run.signal(libc::SIGINT);
    assert_nothing_was_sent_again(&lab, &run.wait());
}

/// The answer takes 2.8 s of wall time, and the client's host is ten times slower than the session.
/// The server's host is not slowed, so it retransmits its answer.
#[test]
fn a_host_that_is_slowed_alone_waits_by_its_own_time() {
    let far = TWO_HOSTS.replace("20 ms", "700 ms");
    let lab = lab(&far, 0);
    let mut run = lab.start(&["time.duration=60 s"]);
    run.wait_for_line("server", "listening");
    run.control("dilate 10 --host near").expect("it is slowed");
    go(&lab);
    run.wait_for_line("server", "sent again");
    run.signal(libc::SIGINT);
    let run = run.wait();
    assert_eq!(said(&lab, "client"), ["sent again 0 0"], "{}", run.output());
    let server = said(&lab, "server");
    assert_ne!(server.last().map(String::as_str), Some("sent again 0"));
}
