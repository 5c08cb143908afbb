//! Machines for tests: network namespaces on one kernel that are connected with each other.

use std::io::{BufRead, BufReader};
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
