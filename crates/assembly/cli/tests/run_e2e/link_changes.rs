//! Links that change during a run, by schedule and by `timeloom link`, in simulated networks and in
//! those of the kernel.

use std::fs;
use std::process::Command;

use timeloom_results::EventRow;

use crate::engine_modes::{REPRODUCIBLE, events, example, logs, signals};
use crate::engine_processes::PROCESSES;
use crate::engines::two_engines;
use crate::support::{Finished, Lab, log_lines, repository};

/// Program that sends a numbered datagram every second. It prints the round-trip time in µs, and the
/// instant of sending in µs since the run began.
const ASK: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.9)
for i in range(int(sys.argv[2])):
    begun, text = time.monotonic_ns(), b"%d" % i
    s.sendto(text, (sys.argv[1], 5000))
    try:
        while s.recv(100) != text:
            pass
        answer = (time.monotonic_ns() - begun) // 1000
    except TimeoutError:
        answer = "lost"
    print(i, answer, begun // 1000 - 86_400_000_000, flush=True)
    time.sleep(max(0, begun + 1_000_000_000 - time.monotonic_ns()) / 1e9)
"#;

const ECHO: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5000))
while True:
    data, peer = s.recvfrom(100)
    s.sendto(data, peer)
"#;

/// Returns a scenario of `duration` in which `a` asks `b` at 0.5 s, 1.5 s …, `count` times.
fn scenario(network: &str, links: &str, (duration, count): (&str, u32), more: &str) -> Lab {
    let text = format!(
        r#"
schema = "timeloom/1"
name = "changes"
time = {{ duration = "{duration}" }}
{network}
[system]
switches = ["s"]
links = {links}
[system.hosts.a]
address = "10.0.0.1/24"
[[system.hosts.a.programs]]
name = "ask"
run = ["python3", "-S", "ask.py", "10.0.0.2", "{count}"]
start = "0.5 s"
after = ["echo"]
essential = false
[system.hosts.b]
address = "10.0.0.2/24"
[[system.hosts.b.programs]]
name = "echo"
run = ["python3", "-S", "echo.py"]
{more}
"#
    );
    let lab = Lab::with_text(&text);
    fs::write(lab.path().join("ask.py"), ASK).expect("it can be written");
    fs::write(lab.path().join("echo.py"), ECHO).expect("it can be written");
    lab
}

const SIMULATED: &str = r#"[network]
link = { rate = "100 Mbit/s", delay = "1 ms" }"#;
const NAMED: &str = r#"[{ between = ["a", "s"], name = "wan" }, { between = ["b", "s"] }]"#;
const UNNAMED: &str = r#"[{ between = ["a", "s"] }, { between = ["b", "s"] }]"#;

/// Changes of the simulated link `wan`.
const CHANGES: &str = r#"
[[event]]
at = "2 s"
link = "wan"
delay = "100 ms"
[[event]]
at = "4 s"
link = "wan"
state = "down"
[[event]]
at = "6 s"
link = ["s", "a"]
state = "up"
delay = "1 ms"
[[event]]
at = "7.999999 s"
link = "b-s"
loss = 1.0
"#;

/// Returns what `ask` has printed: the round trips in µs, `None` for those that were lost.
fn round_trips(run: &Finished) -> Vec<Option<i64>> {
    asked(run).into_iter().map(|(_, answer)| answer).collect()
}

/// Returns when datagrams were sent, in µs since the run began, and their round trips.
fn asked(run: &Finished) -> Vec<(i64, Option<i64>)> {
    let lines = log_lines(run.path(), "ask").into_iter();
    let parsed = lines.filter_map(|(_, line)| {
        let [_, answer, begun] = line.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((begun.parse().ok()?, answer.parse().ok()))
    });
    parsed.collect()
}

/// Returns the instants, in ns, and the texts of the recorded changes.
fn recorded(run: &Finished) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let directory = run.directory();
    let read = directory.for_each(|row: EventRow| {
        if &*row.kind == "link" {
            found.push((row.t_virtual.as_ns(), row.text.to_string()));
        }
        Ok(())
    });
    read.expect("the events can be read");
    found
}

/// Each leg takes 1 ms on each of two links, and 7.52 µs twice for its 94 bytes on the wire or less.
#[test]
fn scheduled_changes_of_a_simulated_link_are_exact_in_each_time_mode() {
    let expected = [
        (2_000_000_000, "wan: delay 100 ms"),
        (4_000_000_000, "wan: down"),
        (6_000_000_000, "wan: up, delay 1 ms"),
        (7_999_999_000, "b-s: loss 1"),
    ];
    let expected = expected.map(|(at, text)| (at, text.to_owned()));
    for sets in [
        &["time.mode=virtual"][..],
        &["time.mode=skip"],
        &REPRODUCIBLE,
    ] {
        let lab = scenario(SIMULATED, NAMED, ("10 s", 9), CHANGES);
        let run = lab.run(sets);
        assert!([0, 4].contains(&run.code), "{}", run.output());
        lab.assert_nothing_left();
        assert_eq!(recorded(&run), expected, "{sets:?}");
        let all = asked(&run);
        let what = format!("{sets:?}: {all:?}");
        let answers = all
            .iter()
            .filter_map(|(begun, answer)| Some((*begun, (*answer)?)));
        for (begun, us) in answers {
            // A busy machine sends later than the program intends.
            assert!(us >= 4_000 && begun < 8_000_000, "{begun}: {what}");
            let end = begun + us;
            let is_slow = begun >= 2_000_000 && end < 6_000_000;
            assert!(!is_slow || us >= 202_000, "{begun}: {what}");
            assert!(begun < 4_000_000 || end > 6_000_000, "{begun}: {what}");
        }
        if sets.len() > 1 {
            // Computing takes no time: nothing is late.
            let all = round_trips(&run);
            let lost: Vec<bool> = all.iter().map(Option::is_none).collect();
            let is_lost = [false, false, false, false, true, true, false, false, true];
            assert_eq!(lost, is_lost, "{what}");
            let us = |number: usize| all[number].unwrap_or(0);
            assert!((4_000..4_100).contains(&us(1)), "{what}");
            assert!((202_000..202_100).contains(&us(2)), "{what}");
            assert!((202_000..202_100).contains(&us(3)), "{what}");
            assert!((4_000..4_100).contains(&us(7)), "{what}");
        }
    }
}

/// The run stops at 3 s, in the middle between two questions, and continues after a change.
#[test]
fn a_granted_run_changes_its_links_by_schedule_and_by_hand() {
    let lab = scenario(SIMULATED, NAMED, ("10 s", 5), CHANGES);
    let sets = [
        "time.mode=stepped",
        "time.stepped={ skip = true }",
        "time.compute=none",
    ];
    let mut run = lab.start(&sets);
    run.wait_for("it cannot be granted time", |run| {
        run.control("run-until 3s").is_ok()
    });
    run.control("link wan --delay 300ms")
        .expect("the link can change");
    let refused = run
        .control("link core --down")
        .expect_err("there is no such link");
    assert!(
        refused.contains("there is no link `core`; there are wan, b-s"),
        "{refused}"
    );
    run.control("run-until 10s").expect("it goes on");
    let run = run.wait();
    assert!([0, 4].contains(&run.code), "{}", run.output());
    let all = round_trips(&run);
    let us = |number: usize| all[number].unwrap_or(0);
    assert!((202_000..202_100).contains(&us(2)), "{all:?}");
    assert!((602_000..602_100).contains(&us(3)), "{all:?}");
    assert_eq!(all[4], None, "the link is down");
    let recorded = recorded(&run);
    assert!(
        recorded.contains(&(3_000_000_000, "wan: delay 300 ms".to_owned())),
        "{recorded:?}"
    );
}

/// The cut link changes its delay, also to one that is less than the lookahead would be without
/// the change.
#[test]
fn two_engines_change_a_cut_link_as_one_does() {
    let changes = r#"
[[event]]
at = "1 s"
link = ["net-left", "net-right"]
delay = "12 ms"
rate = "3 Mbit/s"
[[event]]
at = "1.5 s"
link = ["net-left", "net-right"]
delay = "2 ms"
loss = 0.05
[[event]]
at = "2.2 s"
link = ["net-right", "net-left"]
state = "down"
[[event]]
at = "2.5 s"
link = ["net-right", "net-left"]
state = "up"
jitter = "1 ms"
"#;
    let labs = [true, false].map(|is_cut| example(is_cut, changes));
    let sets = [
        REPRODUCIBLE[0],
        REPRODUCIBLE[1],
        "time.start=2026-05-04T03:02:01Z",
    ];
    let runs = labs.each_ref().map(|lab| lab.run(&sets).succeeded());
    assert_eq!(logs(&runs[0]), logs(&runs[1]));
    let [cut, whole] = runs.each_ref().map(Finished::directory);
    let [of_cut, of_whole] = [&cut, &whole].map(signals);
    for (name, samples) in &of_whole {
        assert_eq!(of_cut.get(name), Some(samples), "{name}");
    }
    assert_eq!(events(&cut), events(&whole));
    assert_eq!(recorded(&runs[0]).len(), 4);
    let delay = &of_cut["net.link.net-left-net-right.delay"];
    let least = |from_s: i64, to_s: i64| {
        let within = delay
            .iter()
            .filter(|(at, _)| (from_s..to_s).contains(&(at / 100_000_000)));
        within
            .map(|(_, bits)| f64::from_bits(*bits))
            .fold(f64::MAX, f64::min)
    };
    assert!(least(2, 10) >= 0.005 && least(11, 15) >= 0.012 && least(16, 40) >= 0.002);
    assert!(least(16, 40) < 0.005, "the shorter delay is in the signal");
}

#[test]
fn engines_that_are_processes_change_a_link_by_hand_also_after_they_join_again() {
    let apart = r#"rate = "20 Mbit/s", delay = "5 ms""#;
    let programs = r#"
[[system.hosts.near.programs]]
name = "ask"
run = ["ping", "-i", "0.2", "10.2.0.2"]
"#;
    let lab = Lab::with_text(&two_engines("apart", "100 s", apart, None, programs));
    let mut run = lab.start(&[PROCESSES]);
    run.wait_for_line("ask", "bytes from");
    let refused = run
        .control("link r1-r2 --delay 1ms")
        .expect_err("it is less than the lookahead");
    assert!(refused.contains("cannot be less than 5 ms"), "{refused}");
    run.control("link r1-r2 --delay 40ms")
        .expect("the link can change");
    let slow = |after: usize| {
        let lines = log_lines(&lab.run_path(), "ask");
        let times = lines.iter().skip(after).filter_map(|(_, line)| {
            line.split_once("time=")?
                .1
                .split(' ')
                .next()?
                .parse::<f64>()
                .ok()
        });
        times.filter(|ms| *ms >= 80.0).count()
    };
    run.wait_for("answers do not take 80 ms", |_| slow(0) >= 2);
    run.control("leave east").expect("it leaves");
    run.control("join east").expect("it joins");
    let before = log_lines(&lab.run_path(), "ask").len() + 2;
    run.wait_for("answers do not take 80 ms again", |_| slow(before) >= 2);
    let run = run.stop();
    let changes = recorded(&run);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].1, "r1-r2: delay 40 ms");
}

/// If computing takes no time, the changes of the kernel's links are exact as well.
#[test]
fn links_of_the_kernel_go_down_and_up_and_change_their_rate() {
    let changes = r#"
[[event]]
at = "2 s"
link = ["a", "s"]
state = "down"
[[event]]
at = "4 s"
link = ["s", "a"]
state = "up"
rate = "10 Mbit/s"
"#;
    let lab = scenario("", UNNAMED, ("6 s", 5), changes);
    let run = lab.run(&REPRODUCIBLE);
    assert!([0, 4].contains(&run.code), "{}", run.output());
    lab.assert_nothing_left();
    let lost: Vec<bool> = round_trips(&run).iter().map(Option::is_none).collect();
    assert_eq!(lost, [false, false, true, true, false]);
    let expected = [
        (2_000_000_000, "a-s: down"),
        (4_000_000_000, "a-s: up, rate 10 Mbit/s"),
    ];
    assert_eq!(
        recorded(&run),
        expected.map(|(at, text)| (at, text.to_owned()))
    );
}

/// Lets Timeloom's package for Python send a request to the run.
pub(crate) fn by_python(lab: &Lab, request: &str) {
    let script = format!(
        "from timeloom.control import Controller\nwith Controller('{}') as run:\n    run.{request}",
        lab.name()
    );
    let done = Command::new("python3")
        .args(["-c", &script])
        .env("PYTHONPATH", repository().join("python"))
        .output()
        .expect("python3 can be started");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{request}: {said}");
}

#[test]
fn links_of_the_kernel_change_by_hand() {
    let lab = scenario("", UNNAMED, ("1000 s", 900), "");
    let mut run = lab.start(&[]);
    run.wait_for_line("ask", "0 ");
    let refused = run
        .control("link a-s --delay 1ms")
        .expect_err("the kernel cannot");
    assert!(refused.contains("only its rate and state"), "{refused}");
    run.control("link s-a --down").expect("it goes down");
    run.wait_for_line("ask", "lost");
    by_python(&lab, "change_link('s-a', up=True, rate_bps=5_000_000)");
    let answers = |lab: &Lab| {
        let lines = log_lines(&lab.run_path(), "ask");
        let lost = lines.iter().rposition(|(_, line)| line.contains("lost"));
        lines.len() - lost.map_or(0, |place| place + 1)
    };
    run.wait_for("no answers come again", |_| answers(&lab) >= 2);
    let run = run.stop();
    let texts: Vec<String> = recorded(&run).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["a-s: down", "a-s: up, rate 5 Mbit/s"]);
}
