//! Machines for tests: network namespaces on one kernel that are connected with each other.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use timeloom_test_support::{need, need_root};

use super::Scratch;

/// Machines that can reach each other until the value is dropped. They and the switch between them
/// are network namespaces, each of which a process keeps alive.
pub(crate) struct Machines {
    /// Processes that keep the namespaces alive; the first keeps the switch.
    pub(crate) holders: Vec<Child>,
    pub(crate) scratch: Scratch,
    pub(crate) tag: String,
}

/// Agent, which is killed when the value is dropped.
pub(crate) struct Agent(pub(crate) Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Drop for Machines {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

impl Machines {
    pub(crate) fn new(tag: &str, count: usize) -> Self {
        need_root();
        need("ip", "iproute2");
        for program in ["unshare", "nsenter"] {
            need(program, "util-linux");
        }
        let holder = |_| {
            let mut holder = Command::new("unshare")
                .args(["--net", "sh", "-c", "echo here; exec sleep 3600"])
                .stdout(Stdio::piped())
                .spawn()
                .expect("a network namespace");
            let mut line = String::new();
            let out = holder.stdout.take().expect("its output");
            BufReader::new(out).read_line(&mut line).expect("it begins");
            assert_eq!(line, "here\n");
            holder
        };
        let machines = Self {
            holders: (0..=count).map(holder).collect(),
            scratch: Scratch::new(tag),
            tag: format!("{tag}-{}", std::process::id()),
        };
        machines.ip(0, "link add br0 type bridge");
        machines.ip(0, "link set br0 up");
        for index in 1..=count {
            let its = machines.holders[index].id();
            machines.ip(
                0,
                &format!("link add h{index} type veth peer name eth0 netns {its}"),
            );
            machines.ip(0, &format!("link set h{index} master br0 up"));
            machines.ip(index, &format!("address add 10.9.0.{index}/24 dev eth0"));
            machines.ip(index, "link set eth0 up");
            machines.ip(index, "link set lo up");
        }
        let key = "0123456789abcdef".repeat(4);
        machines.scratch.write_key("key", &key);
        machines
    }

    pub(crate) fn within(&self, index: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let net = format!("--net=/proc/{}/ns/net", self.holders[index].id());
        command.arg(net).arg(program);
        command
    }

    pub(crate) fn ip(&self, index: usize, arguments: &str) {
        let done = self.within(index, "ip").args(arguments.split(' ')).output();
        let done = done.expect("ip runs");
        assert!(done.status.success(), "ip {arguments}: {done:?}");
    }

    pub(crate) fn session(&self, index: usize) -> String {
        format!("{}-{}", self.tag, NAMES[index])
    }

    pub(crate) fn query(&self, index: usize) -> serde_json::Value {
        let asked = timeloom(&["query", "--json", "--name", &self.session(index)]);
        // The agent has not answered yet.
        serde_json::from_slice(&asked.stdout).unwrap_or_default()
    }

    /// Runs a command on a machine's session, which must succeed.
    pub(crate) fn command(&self, index: usize, arguments: &[&str]) {
        let done = timeloom(&[arguments, &["--name", &self.session(index)]].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{arguments:?}: {said}");
    }

    /// Returns a machine's virtual time in nanoseconds.
    pub(crate) fn now_ns(&self, index: usize) -> i64 {
        self.query(index)["virtual_ns"].as_i64().expect("a clock")
    }

    /// Checks that the first `count` machines are paused at this virtual instant.
    pub(crate) fn all_stand_at(&self, count: usize, at_ns: i64) {
        for index in 0..count {
            let status = self.query(index);
            assert_eq!(status["virtual_ns"].as_i64(), Some(at_ns), "{status}");
            assert_eq!(status["paused"].as_bool(), Some(true), "{status}");
        }
    }

    /// Grants steps of 99 ms, up to `end_ns`, to the first of two machines. After each step, checks
    /// the clock of the second: it has not passed the end of the step, and, if `is_equal`, stands
    /// there. Returns the number of steps.
    pub(crate) fn grant_steps(&self, end_ns: i64, is_equal: bool) -> u32 {
        let [first, second] = [0, 1].map(|index| self.session(index));
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../python");
        let granter = Command::new("python3")
            .args(["-c", GRANTER, &first, &second])
            .args([end_ns.to_string(), u8::from(is_equal).to_string()])
            .env("PYTHONPATH", python)
            .output()
            .expect("python3 can be started");
        let said = String::from_utf8_lossy(&granter.stderr);
        assert!(granter.status.success(), "{said}");
        let steps = String::from_utf8_lossy(&granter.stdout);
        steps.trim().parse().expect("a number of steps")
    }

    /// Holds the machines, through one of them, until the input of the returned process ends. Also
    /// returns the virtual instant of the pause.
    pub(crate) fn hold(&self, index: usize) -> (Child, i64) {
        Self::hold_session(&self.session(index))
    }

    /// Holds the session `name`, until the input of the returned process ends.
    pub(crate) fn hold_session(name: &str) -> (Child, i64) {
        let mut hold = Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .args(["hold", "--json", "--name", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("timeloom hold");
        let mut line = String::new();
        let out = hold.stdout.as_mut().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("it holds");
        let status: serde_json::Value = serde_json::from_str(&line).expect("a status");
        (hold, status["virtual_ns"].as_i64().expect("an instant"))
    }
}

pub(crate) fn timeloom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(arguments)
        .output()
        .expect("running timeloom")
}

pub(crate) fn let_go(mut hold: Child) {
    drop(hold.stdin.take());
    let ended = hold.wait().expect("it ends");
    assert!(ended.success());
}

/// Grants steps of 99 ms to the session of the first argument, up to the instant of the third, and
/// checks the clock of the session of the second. Prints the number of steps.
const GRANTER: &str = r#"
import sys
from timeloom.control import Controller, Granter
steps, end, is_equal = 0, int(sys.argv[3]), sys.argv[4] == "1"
with Granter(sys.argv[1], wait_s=60) as testbed, Controller(sys.argv[2], wait_s=60) as other:
    while testbed.standing.now_ns < end and not testbed.standing.ended:
        until = min(testbed.standing.now_ns + 99_000_000, end)
        testbed.grant_ns(until)
        steps += 1
        if until == end:
            break
        assert testbed.standing.now_ns == until, testbed.standing
        there = other.state()
        assert there.now_ns <= until, (there, until)
        assert not is_equal or there.now_ns == until and there.paused, (there, until)
print(steps)
"#;
