//! Several machines with one virtual time. Their agents are in network namespaces and share the
//! pause bus.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use timeloom_test_support::wait_for;

use crate::support::machines::{Agent, Machines, NAMES, let_go, timeloom};

impl Machines {
    /// Starts an agent on each of the first `count` machines, and waits until all run.
    pub(crate) fn agents(&self, count: usize, more: &[&str]) -> Vec<Agent> {
        let agents: Vec<Agent> = (0..count)
            .map(|index| self.agent(index, count, more))
            .collect();
        for index in 0..count {
            wait_for("time begins", || {
                match self.query(index)["paused"].as_bool() {
                    Some(false) => Some(()),
                    _ => None,
                }
            });
        }
        agents
    }

    fn agent(&self, index: usize, count: usize, more: &[&str]) -> Agent {
        let mut command = self.within(index + 1, env!("CARGO_BIN_EXE_timeloom"));
        command.args(["agent", "--timeline", "machine", "--host", NAMES[index]]);
        command.args(["--name", &self.session(index)]);
        command.args(["--listen", &format!("10.9.0.{}:5500", index + 1)]);
        command.args(["--key-file", &self.scratch.text("key")]);
        command.args(["--log", &self.scratch.text(NAMES[index])]);
        for other in (0..count).filter(|other| *other != index) {
            command.arg("--peer");
            command.arg(format!("{}=10.9.0.{}:5500", NAMES[other], other + 1));
        }
        command.args(more).args(["--", "sleep", "86400"]);
        let errors = fs::File::create(self.scratch.path(&format!("{index}.err")));
        command.stderr(errors.expect("a file"));
        Agent(command.stdout(Stdio::null()).spawn().expect("an agent"))
    }

    /// Changes the dilation of all machines through one of them.
    pub(crate) fn dilate(&self, index: usize, factor: f64) {
        let factor = factor.to_string();
        let done = timeloom(&["dilate", &factor, "--name", &self.session(index)]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "dilate {factor}: {said}");
    }

    /// Reads the clocks of the first `count` machines in turn, and checks that each reading lies
    /// between the two readings of the first machine's clock around it. The clocks must not be
    /// paused meanwhile.
    pub(crate) fn check_readings(&self, count: usize, times: usize) {
        let read = |index: usize| self.query(index)["virtual_ns"].as_i64().expect("a clock");
        for _ in 0..times {
            for index in 1..count {
                let (before, there, after) = (read(0), read(index), read(0));
                let is_between = before - APART_NS < there && there < after + APART_NS;
                assert!(is_between, "{index}: {before} {there} {after}");
            }
        }
    }

    pub(crate) fn log(&self, index: usize) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.scratch.path(NAMES[index])).expect("a log");
        let lines = text.lines().map(serde_json::from_str);
        lines.filter_map(Result::ok).collect()
    }

    pub(crate) fn errors(&self, index: usize) -> String {
        let path = self.scratch.path(&format!("{index}.err"));
        fs::read_to_string(path).expect("its errors")
    }
}

/// Maximum difference between the clocks of two machines that share a kernel, in virtual
/// nanoseconds. It is many times the error with which a session follows the kernel's clock.
const APART_NS: i64 = 1_000_000;

/// Long enough that no machine is declared dead on a busy host.
const PATIENT: [&str; 2] = ["--patience", "60s"];

/// Any machine can pause all. All must stop at the same virtual nanosecond, and the deviations of
/// their clocks must not grow.
#[test]
fn agents_take_turns_and_their_clocks_stay_together() {
    const PAUSES: usize = 32;
    let machines = Machines::new("agents", 4);
    let agents = machines.agents(4, &PATIENT);
    let mut last = 0;
    for turn in 0..PAUSES {
        let (hold, at) = machines.hold(turn % 4);
        assert!(at > last, "time has passed: {last} {at}");
        for index in 0..4 {
            let status = machines.query(index);
            assert_eq!(status["virtual_ns"].as_i64(), Some(at), "{status}");
        }
        // Some intervals between pauses are long, and some are short.
        std::thread::sleep(Duration::from_millis((turn * 7 % 30) as u64));
        for index in 0..4 {
            assert_eq!(machines.query(index)["virtual_ns"].as_i64(), Some(at));
        }
        let_go(hold);
        // A request that arrives before the last release has been received joins that pause.
        wait_for("time goes on", || {
            (machines.query((turn + 1) % 4)["virtual_ns"].as_i64()? > at).then_some(())
        });
        last = at;
    }
    let logs: Vec<_> = (0..4)
        .map(|index| {
            wait_for("all pauses are in the log", || {
                let log = machines.log(index);
                (log.len() > PAUSES).then_some(log)
            })
        })
        .collect();
    drop(agents);
    let entry = |index: usize, pause: usize| &logs[index][pause];
    for pause in 0..=PAUSES {
        let of = |index| entry(index, pause);
        let at = of(0)["at_ns"].as_i64();
        let resumed = of(0)["resumed_wall_ns"].as_i64();
        for index in 0..4 {
            assert_eq!(of(index)["pause"].as_u64(), Some(pause as u64));
            assert_eq!(of(index)["at_ns"].as_i64(), at, "pause {pause}");
            assert_eq!(of(index)["resumed_wall_ns"].as_i64(), resumed);
        }
        let asked = (0..4).filter(|index| of(*index)["asked"].as_bool() == Some(true));
        let asked: Vec<usize> = asked.collect();
        match pause.checked_sub(1) {
            Some(turn) => assert_eq!(asked, [turn % 4], "pause {pause}"),
            None => assert!(asked.is_empty(), "the stand before the start"),
        }
    }
    // Returns the deviation of each clock from the common line at the start of a pause, minus the
    // error of the comparison.
    let off = |index: usize, pause: usize| {
        let entry = entry(index, pause);
        let deviation = entry["deviation_ns"].as_i64().expect("it ran before").abs();
        (deviation - entry["deviation_error_ns"].as_i64().expect("an error")).max(0)
    };
    for (index, name) in NAMES.iter().enumerate().take(4) {
        let mut early: Vec<i64> = (1..=PAUSES / 2).map(|pause| off(index, pause)).collect();
        let mut late: Vec<i64> = (PAUSES / 2 + 1..=PAUSES).map(|it| off(index, it)).collect();
        early.sort_unstable();
        late.sort_unstable();
        eprintln!("{name}: {early:?} {late:?}");
        let (early, late) = (early[early.len() / 2], late[late.len() / 2]);
        // The paper's boards drift apart by 41 ms in 128 pauses, which is 320 µs for each pause.
        let papers = 320_000 * PAUSES as i64 / 2;
        assert!(late < early + papers, "it grows: {early} {late}");
    }
}

/// Two machines hold at overlapping times. All must stay stopped until the last hold is released.
#[test]
fn the_last_of_two_holds_lets_all_go() {
    let machines = Machines::new("wired-or", 2);
    let _agents = machines.agents(2, &PATIENT);
    let (first, at) = machines.hold(0);
    let (second, same) = machines.hold(1);
    assert_eq!(at, same);
    let_go(first);
    std::thread::sleep(Duration::from_millis(50));
    for index in 0..2 {
        let status = machines.query(index);
        assert_eq!(status["virtual_ns"].as_i64(), Some(at), "{status}");
        assert_eq!(status["paused"].as_bool(), Some(true), "{status}");
    }
    let_go(second);
    for index in 0..2 {
        wait_for("it goes on", || {
            (machines.query(index)["virtual_ns"].as_i64()? > at).then_some(())
        });
    }
    // A request that would make the clocks differ must be refused, and an impossible one must not
    // stop the machines.
    for (request, says) in [
        (["run-until", "1ns"], "is in the past"),
        (["step", "1s"], "the session is running"),
        (["dilate", "2e6"], "a dilation of 2000000 is not possible"),
    ] {
        let asked = timeloom(&[&request[..], &["--name", &machines.session(0)]].concat());
        let said = String::from_utf8_lossy(&asked.stderr).replace('\n', " ");
        assert!(said.contains(says), "{says}: {said}");
    }
}

/// Any machine can step all, or let all run until an instant. All must stop at exactly that
/// instant, whatever the rate, and go on from there together.
#[test]
fn agents_step_and_run_until_an_instant_together() {
    let machines = Machines::new("agents-step", 3);
    let _agents = machines.agents(3, &PATIENT);
    machines.command(0, &["pause"]);
    let mut at = machines.now_ns(0);
    for (step_ms, dilation) in [(1, 1.0), (1_000, 0.5), (70, 20.0), (200, 1.0)] {
        // The pause goes on, so the change counts from the step on.
        machines.dilate(1, dilation);
        machines.command(0, &["step", &format!("{step_ms} ms")]);
        at += step_ms * 1_000_000;
        machines.all_stand_at(3, at);
        assert_eq!(machines.query(2)["dilation"].as_f64(), Some(dilation));
    }
    machines.command(0, &["resume"]);
    // A run until an instant pauses a running session once more, to tell all others before it.
    for index in [1, 2] {
        let before = machines.now_ns(index);
        machines.command(index, &["run-until", "+2s"]);
        let until = machines.now_ns(index);
        assert!(until >= before + 2_000_000_000, "{before} {until}");
        machines.all_stand_at(3, until);
        machines.command(index, &["resume"]);
        wait_for("all go on", || {
            (machines.query(0)["virtual_ns"].as_i64()? > until).then_some(())
        });
    }
}

/// A pause ends a run to an instant for all, and a machine that dies during one holds nothing up.
#[test]
fn a_run_to_an_instant_ends_with_a_pause_and_with_its_machine() {
    let machines = Machines::new("agents-step-end", 3);
    let mut agents = machines.agents(3, &["--patience", "3s", "--on-silence", "release"]);
    let run_until = |index: usize, ahead_ns: i64| {
        let until = machines.now_ns(0) + ahead_ns;
        let instant = format!("{}.{:09} s", until / 1_000_000_000, until % 1_000_000_000);
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command.args(["run-until", &instant, "--name", &machines.session(index)]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        (command.spawn().expect("a command"), until)
    };
    let (far, until) = run_until(1, 3_600_000_000_000);
    // The first pause of the run has begun and ended.
    wait_for("the run to the instant begins", || {
        (machines.log(1).len() > 1).then_some(())
    });
    let name = machines.session(1);
    assert!(timeloom(&["pause", "--name", &name]).status.success());
    let output = far.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("was paused at"), "{said}");
    let at = machines.now_ns(0);
    assert!(at < until, "{at}");
    assert!(timeloom(&["resume", "--name", &name]).status.success());
    let (mut short, until) = run_until(1, 10_000_000_000);
    wait_for("the run to the instant begins", || {
        (machines.log(0).len() > 3).then_some(())
    });
    drop(agents.remove(1));
    for index in [0, 2] {
        wait_for("the others pass the instant", || {
            (machines.query(index)["virtual_ns"].as_i64()? > until).then_some(())
        });
    }
    short.wait().expect("it ends");
}

/// Any machine can change the rate of all. All must change at the same virtual nanosecond, and a
/// reading of a clock must lie between two readings of another machine's clock around it.
#[test]
fn agents_change_their_rate_at_one_virtual_instant() {
    let machines = Machines::new("dilated", 3);
    let agents = machines.agents(3, &PATIENT);
    let factors = [3.0, 0.5, 20.0, 1.0];
    for (turn, factor) in factors.into_iter().enumerate() {
        machines.dilate(turn % 3, factor);
        for index in 0..3 {
            wait_for("all have changed", || {
                let status = machines.query(index);
                let is_new = status["dilation"].as_f64() == Some(factor);
                (is_new && status["paused"] == false).then_some(())
            });
        }
        machines.check_readings(3, 4);
    }
    // In a pause that another machine prolongs, the change is made when the pause ends.
    let (hold, at) = machines.hold(1);
    machines.dilate(0, 4.0);
    assert_eq!(machines.query(2)["virtual_ns"].as_i64(), Some(at));
    let_go(hold);
    for index in 0..3 {
        wait_for("it goes on", || {
            let status = machines.query(index);
            let goes_on = status["virtual_ns"].as_i64()? > at;
            (goes_on && status["dilation"].as_f64() == Some(4.0)).then_some(())
        });
    }
    let logs: Vec<_> = (0..3)
        .map(|index| {
            wait_for("all pauses are in the log", || {
                let log = machines.log(index);
                (log.len() > factors.len() + 1).then_some(log)
            })
        })
        .collect();
    drop(agents);
    for key in ["pause", "at_ns", "dilation", "resumed_wall_ns"] {
        let of = |index: usize| -> Vec<_> { logs[index].iter().map(|it| &it[key]).collect() };
        assert_eq!(of(0), of(1), "{key}");
        assert_eq!(of(0), of(2), "{key}");
    }
    let dilations: Vec<_> = logs[0]
        .iter()
        .filter_map(|it| it["dilation"].as_f64())
        .collect();
    assert_eq!(dilations, [1.0, 3.0, 0.5, 20.0, 1.0, 4.0]);
}

/// If a machine dies after it has requested another rate, the others must continue at one rate, and
/// must be able to change it.
#[test]
fn a_dead_machine_leaves_the_others_at_one_rate() {
    let machines = Machines::new("dilated-dead", 3);
    let mut agents = machines.agents(3, &["--patience", "3s", "--on-silence", "release"]);
    // The machine dies while its change waits for the end of another machine's pause.
    let (hold, at) = machines.hold(0);
    machines.dilate(1, 3.0);
    drop(agents.remove(1));
    std::thread::sleep(Duration::from_millis(100));
    let_go(hold);
    let rates: Vec<Option<f64>> = [0, 2]
        .map(|index| {
            wait_for("the others go on", || {
                let status = machines.query(index);
                (status["virtual_ns"].as_i64()? > at).then(|| status["dilation"].as_f64())
            })
        })
        .to_vec();
    // The request of the dead machine counts for all or for none.
    assert_eq!(rates[0], rates[1]);
    machines.dilate(2, 2.0);
    for index in [0, 2] {
        wait_for("the others change", || {
            let status = machines.query(index);
            (status["dilation"].as_f64() == Some(2.0)).then_some(())
        });
    }
}

/// The holds of a dead machine must be released, if so configured and if enough machines are left.
#[test]
fn a_dead_holder_is_released() {
    let machines = Machines::new("dead-holder", 3);
    let mut agents = machines.agents(3, &["--patience", "3s", "--on-silence", "release"]);
    let (mut hold, at) = machines.hold(1);
    drop(agents.remove(1));
    for index in [0, 2] {
        wait_for("the others go on", || {
            (machines.query(index)["virtual_ns"].as_i64()? > at).then_some(())
        });
    }
    let (again, later) = machines.hold(2);
    assert!(later > at);
    assert_eq!(machines.query(0)["virtual_ns"].as_i64(), Some(later));
    let_go(again);
    let _ = hold.kill();
    let _ = hold.wait();
}

/// A pulled cable must stop all machines, and the message must name the cable's ends.
#[test]
fn a_pulled_cable_stops_all_and_says_where() {
    let machines = Machines::new("cable", 2);
    let mut agents = machines.agents(2, &["--patience", "3s"]);
    machines.ip(0, "link set h2 down");
    for (index, other) in [(0, "b"), (1, "a")] {
        let ended = agents[index].0.wait().expect("it ends");
        assert_eq!(ended.code(), Some(1));
        let mut said = machines.errors(index);
        said.retain(|letter| letter != '\n');
        assert!(
            said.contains(&format!("receives nothing from {other}")),
            "{said}"
        );
        assert!(said.contains("the link"), "{said}");
    }
}

/// A machine that joins late must take part from the next resumption on.
#[test]
fn a_late_machine_joins_at_the_next_resume() {
    let machines = Machines::new("joiner", 3);
    let late = ["--late-peer", "c=10.9.0.3:5500"];
    let _agents = machines.agents(2, &[&PATIENT[..], &late[..]].concat());
    let _joiner = machines.agent(2, 3, &[&PATIENT[..], &["--join"]].concat());
    wait_for("its session is there", || {
        machines.query(2)["paused"].as_bool()
    });
    // The pause may end before the machine's request arrives, in which case another pause is
    // needed.
    wait_for("it takes part", || {
        let (hold, at) = machines.hold(0);
        let takes_part = machines.query(2)["virtual_ns"].as_i64() == Some(at);
        let_go(hold);
        takes_part.then_some(())
    });
    let (hold, at) = machines.hold(2);
    for index in 0..3 {
        assert_eq!(machines.query(index)["virtual_ns"].as_i64(), Some(at));
    }
    let_go(hold);
}

/// A new message must be multicast in one datagram; acknowledgements and retransmissions go to
/// single machines. One machine's cable carries no multicast, so that machine gets everything by
/// retransmission.
#[test]
fn agents_speak_to_all_at_once() {
    const PAUSES: usize = 12;
    let machines = Machines::new("group", 3);
    machines.ip(0, "link set br0 type bridge mcast_snooping 0");
    machines.ip(0, "link set h3 type bridge_slave mcast_flood off");
    let group = ["--group", "239.7.7.7:5501"];
    let _agents = machines.agents(3, &[&PATIENT[..], &group[..]].concat());
    for turn in 0..PAUSES {
        let (hold, at) = machines.hold(turn % 3);
        for index in 0..3 {
            assert_eq!(machines.query(index)["virtual_ns"].as_i64(), Some(at));
        }
        let_go(hold);
        wait_for("time goes on", || {
            (machines.query((turn + 1) % 3)["virtual_ns"].as_i64()? > at).then_some(())
        });
    }
    for index in 1..=3 {
        let read = machines
            .within(index, "cat")
            .arg("/proc/net/netstat")
            .output();
        let text = String::from_utf8(read.expect("cat runs").stdout).expect("text");
        let mut lines = text.lines().filter(|line| line.starts_with("IpExt:"));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let of = |wanted: &str| -> usize {
            let mut pairs = names.split(' ').zip(values.split(' '));
            let found = pairs.find(|(name, _)| *name == wanted).expect("a counter");
            found.1.parse().expect("a number")
        };
        // In each pause a machine passes through five stages, and announces each. It also receives
        // its own multicast messages.
        let (sent, came) = (of("OutMcastPkts"), of("InMcastPkts"));
        assert!(sent >= 4 * PAUSES, "{sent} {came}");
        match index {
            3 => assert!(came <= sent, "{sent} {came}"),
            _ => assert!(came >= sent + 4 * PAUSES, "{sent} {came}"),
        }
    }
}

/// A group must be an IPv4 multicast address, and a wire needs an existing chip. Both mistakes must
/// be reported.
#[test]
fn invalid_groups_and_missing_gpio_chips_are_reported() {
    let scratch = crate::support::Scratch::new("no-line");
    let key = scratch.text("key");
    scratch.write_key("key", &"0123456789abcdef".repeat(4));
    let network = ["--listen", "127.0.0.1:0", "--key-file", &key];
    for (more, says) in [
        (
            vec!["--group", "10.0.0.9:5501"],
            "joining the group 10.0.0.9:5501",
        ),
        (
            vec!["--gpio", "gpiochip99:1,2,3"],
            "--gpio /dev/gpiochip99:1,2,3",
        ),
        (
            vec!["--gpio", "gpiochip99:1,2"],
            "output, rising input, falling input",
        ),
        (vec!["--gpio", "gpiochip99:1,2,2"], "three different lines"),
    ] {
        let words = [
            &["agent", "--host", "a"][..],
            &network,
            &more,
            &["--", "true"],
        ]
        .concat();
        let ended = timeloom(&words);
        let said = String::from_utf8_lossy(&ended.stderr).replace('\n', " ");
        assert!(
            !ended.status.success() && said.contains(says),
            "{words:?}: {said}"
        );
    }
    let ended = timeloom(&["agent", "--host", "a", "--", "true"]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        said.contains("--listen") && !ended.status.success(),
        "{said}"
    );
}

/// A machine that stands for another has no hold of its own. `query --why` there must name the
/// other machine.
#[test]
fn a_pause_of_another_machine_is_named_with_that_machine() {
    let machines = Machines::new("awaited", 2);
    let _agents = machines.agents(2, &PATIENT);
    let (hold, _) = machines.hold(0);
    wait_for("the machine is named", || {
        let asked = timeloom(&["query", "--why", "--json", &machines.session(1)]);
        let status: serde_json::Value = serde_json::from_slice(&asked.stdout).ok()?;
        let mut causes = status["why"]["causes"].as_array()?.iter();
        let is_named = causes
            .any(|cause| cause["component"] == "agent `a`" && cause["state"] == "holds the pause");
        is_named.then_some(())
    });
    let_go(hold);
}
