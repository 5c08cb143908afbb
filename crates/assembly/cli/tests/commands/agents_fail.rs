//! Failures of agents and of the networks between them: which machines must stop, which must
//! continue, and what they report. (Every order of such events is searched on the model, in
//! `timeloom-agreement`.)

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use timeloom_test_support::{need_root, own_address, wait_for};

use crate::support::Scratch;
use crate::support::machines::{Agent, Machines, let_go, timeloom};

/// Returns the exit status of an agent, and its output on one line.
fn ended(machines: &Machines, agent: &mut Agent, index: usize) -> (Option<i32>, String) {
    let status = agent.0.wait().expect("it ends");
    let said = machines.errors(index);
    (status.code(), said.replace('\n', ""))
}

/// Of three machines, two do not receive each other's messages, and the third receives both. All
/// must stop, and the message must name the link.
#[test]
fn a_link_that_breaks_between_two_of_three_stops_all_and_is_named() {
    let machines = Machines::new("one-link", 3);
    let mut agents = machines.agents(3, &["--patience", "3s"]);
    machines.ip(1, "route add blackhole 10.9.0.2/32");
    machines.ip(2, "route add blackhole 10.9.0.1/32");
    for (index, agent) in agents.iter_mut().enumerate() {
        let (code, said) = ended(&machines, agent, index);
        assert_eq!(code, Some(1), "{said}");
        let named = ["the link a–b is broken", "the link b–a is broken"];
        assert!(named.iter().any(|words| said.contains(words)), "{said}");
    }
}

/// A machine that is cut off must stop. The others are more than half, and must continue.
#[test]
fn a_machine_that_is_cut_off_stops_and_the_others_continue() {
    let machines = Machines::new("minority", 3);
    let mut agents = machines.agents(3, &["--patience", "3s", "--on-silence", "release"]);
    machines.ip(0, "link set h3 down");
    let (code, said) = ended(&machines, &mut agents[2], 2);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("c receives datagrams from at most half"),
        "{said}"
    );
    let (hold, at) = machines.hold(0);
    assert_eq!(machines.query(1)["virtual_ns"].as_i64(), Some(at));
    let_go(hold);
    for index in 0..2 {
        wait_for("the two go on", || {
            (machines.query(index)["virtual_ns"].as_i64()? > at).then_some(())
        });
    }
}

/// A machine dies during its hold, and the run is configured to stop. All must stop and name the
/// machine.
#[test]
fn a_holder_that_dies_stops_all_and_is_named() {
    let machines = Machines::new("dead-stop", 3);
    let mut agents = machines.agents(3, &["--patience", "3s"]);
    let (mut hold, at) = machines.hold(1);
    drop(agents.remove(1));
    for (agent, index) in agents.iter_mut().zip([0, 2]) {
        let (code, said) = ended(&machines, agent, index);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("receives nothing from b"), "{said}");
        // Virtual time must not have advanced.
        let last = machines
            .log(index)
            .pop()
            .expect("the stand before the start");
        assert!(last["at_ns"].as_i64() < Some(at), "{last}");
    }
    let _ = hold.kill();
    let _ = hold.wait();
}

/// Datagrams that are lost, duplicated or reordered must not lose or duplicate a pause: both
/// machines must count the same pauses.
#[test]
fn a_line_that_loses_doubles_and_reorders_loses_no_pause() {
    const PAUSES: usize = 12;
    need_root();
    let scratch = Scratch::new("bad-line");
    scratch.write_key("key", &"0123456789abcdef".repeat(4));
    let at = [own_address(), own_address()];
    let ways = [BadLine::to(at[0]), BadLine::to(at[1])];
    let names = ["a", "b"].map(|name| format!("bad-line-{name}-{}", std::process::id()));
    let start = |index: usize| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command.args(["agent", "--timeline", "machine", "--patience", "60s"]);
        command.args(["--host", &names[index], "--listen", &at[index].to_string()]);
        let (peer, way) = (&names[1 - index], &ways[1 - index]);
        command.args(["--peer", &format!("{peer}={}", way.address)]);
        command.args(["--key-file", &scratch.text("key")]);
        command.args(["--log", &scratch.text(&names[index])]);
        command.args(["--", "sleep", "86400"]).stdout(Stdio::null());
        Agent(command.spawn().expect("an agent"))
    };
    let _agents = [start(0), start(1)];
    let now = |index: usize| {
        let asked = timeloom(&["query", "--json", "--name", &names[index]]);
        let status: Value = serde_json::from_slice(&asked.stdout).ok()?;
        status["virtual_ns"].as_i64()
    };
    let mut last = 0;
    for turn in 0..PAUSES {
        wait_for("both run", || {
            (now(0)? > last && now(1)? > last).then_some(())
        });
        let (hold, held_at) = Machines::hold_session(&names[turn % 2]);
        assert!(held_at > last, "{held_at} {last}");
        assert_eq!((now(0), now(1)), (Some(held_at), Some(held_at)));
        let_go(hold);
        last = held_at;
    }
    let log = |name: &String| {
        wait_for("all pauses are in the log", || {
            let text = std::fs::read_to_string(scratch.path(name)).ok()?;
            let lines = text.lines().map(serde_json::from_str::<Value>);
            let log: Vec<Value> = lines.filter_map(Result::ok).collect();
            (log.len() > PAUSES).then_some(log)
        })
    };
    for (number, (one, other)) in log(&names[0]).iter().zip(log(&names[1])).enumerate() {
        assert_eq!(one["pause"].as_u64(), Some(number as u64));
        for key in ["pause", "at_ns", "resumed_wall_ns"] {
            assert_eq!(one[key], other[key], "{key}: {one} {other}");
        }
        assert_eq!(one["asked"].as_bool(), Some(number % 2 == 1), "{one}");
    }
    for way in ways {
        let (lost, doubled, late) = way.end();
        assert!(
            lost > 0 && doubled > 0 && late > 0,
            "{lost} {doubled} {late}"
        );
    }
}

/// One direction of a bad line. Of every five datagrams, one is lost, one is duplicated, and one
/// arrives after its successor.
struct BadLine {
    address: std::net::SocketAddr,
    over: Arc<AtomicBool>,
    thread: JoinHandle<(u64, u64, u64)>,
}

impl BadLine {
    fn to(end: std::net::SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("its address");
        let patience = Some(Duration::from_millis(20));
        socket.set_read_timeout(patience).expect("a timeout");
        let over = Arc::new(AtomicBool::new(false));
        let its = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let (mut count, mut lost, mut doubled, mut late) = (0u64, 0, 0, 0);
            let mut kept = VecDeque::new();
            let mut buffer = [0; 2048];
            // If the peer does not run yet, ICMP causes an error, which counts as a loss.
            let send = |bytes: &[u8]| drop(socket.send_to(bytes, end));
            while !its.load(Ordering::SeqCst) {
                let Ok(length) = socket.recv(&mut buffer) else {
                    kept.drain(..).for_each(|bytes: Vec<u8>| send(&bytes));
                    continue;
                };
                count += 1;
                match count % 5 {
                    1 => lost += 1,
                    2 => {
                        send(&buffer[..length]);
                        send(&buffer[..length]);
                        doubled += 1;
                    }
                    3 => {
                        kept.push_back(buffer[..length].to_vec());
                        late += 1;
                    }
                    _ => {
                        send(&buffer[..length]);
                        kept.drain(..).for_each(|bytes| send(&bytes));
                    }
                }
            }
            (lost, doubled, late)
        });
        Self {
            address,
            over,
            thread,
        }
    }

    /// Returns the numbers of datagrams that were lost, duplicated and late.
    fn end(self) -> (u64, u64, u64) {
        self.over.store(true, Ordering::SeqCst);
        self.thread.join().expect("it does not panic")
    }
}
