//! Simulated network in two engine processes: programs communicate across the cut, and a process is
//! killed during the run.

use std::fs;
use std::time::Duration;

use crate::engines::{APART, Beside, TRAFFIC, asks, crosses, goes_on, two_engines};
use crate::support::{Lab, Running, log_lines, patiently};

pub(crate) const PROCESSES: &str = "network.engines.processes=true";

#[test]
fn programs_talk_across_a_cut_between_processes() {
    crosses("free", &[PROCESSES]);
}

/// Scenario with 5 ms between two routers that belong to different processes, a ping, and a TCP
/// connection between the kernels of two hosts.
fn measures() -> String {
    let apart = r#"rate = "20 Mbit/s", delay = "5 ms""#;
    two_engines("apart", "30 s", apart, None, MEASURES)
}

const MEASURES: &str = r#"
[[system.hosts.far.programs]]
name = "server"
run = ["iperf3", "-s", "--forceflush"]
ready = "log:Server listening"
essential = false
[[system.hosts.near.programs]]
name = "ask"
run = ["sh", "-c", """
ping -c 3 -i 0.2 -W 10 10.2.0.2
iperf3 -c 10.2.0.2 -n 2M --forceflush
echo all is asked
sleep 1000
"""]
after = ["server"]
"#;

/// Returns the process IDs of an engine of this run.
pub(crate) fn processes_of(run: &Running<'_>, engine: &str) -> Vec<i32> {
    let parent = format!("PPid:\t{}\n", run.pid());
    let is_it = |process: &i32| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}"));
        read("status").is_ok_and(|status| status.contains(&parent))
            && read("cmdline").is_ok_and(|words| words.ends_with(&format!("engine\0{engine}\0")))
    };
    let all = fs::read_dir("/proc").expect("it is there").flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(is_it).collect()
}

/// Returns the process ID of an engine, which must have a single process.
pub(crate) fn process_of(run: &Running<'_>, engine: &str) -> i32 {
    let those = processes_of(run, engine);
    assert_eq!(those.len(), 1, "the processes of engine {engine}");
    those[0]
}

#[test]
fn iperf3_measures_across_a_cut_between_processes_that_encrypt() {
    let lab = Lab::with_text(&measures());
    let mut run = lab.start(&[PROCESSES, "network.engines.encrypt=true"]);
    run.wait_for_line("server", "Server listening");
    let (west, east) = (process_of(&run, "west"), process_of(&run, "east"));
    assert!(west != east && west != run.pid());
    run.wait_for_line("ask", "all is asked");
    run.signal(libc::SIGTERM);
    let run = run.wait();
    lab.assert_nothing_left();
    for process in [west, east] {
        assert!(!fs::exists(format!("/proc/{process}")).expect("readable"));
    }
    let lines = log_lines(run.path(), "ask");
    let all: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    let text = all.join("\n");
    assert!(text.contains("3 packets transmitted, 3 received"), "{text}");
    // Two MiB take at least 0.84 s at 20 Mbit/s, and must have arrived completely.
    let line = all.iter().find(|line| line.ends_with("receiver"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.ends_with("bits/sec"));
    let (rate, unit) = (words[at.unwrap() - 1], words[at.unwrap()]);
    let rate: f64 = rate.parse().expect("a rate");
    let rate = rate * if unit.starts_with('M') { 1e6 } else { 1e3 };
    assert!(rate > 0.0 && rate < 20e6, "{line}");
    let events = run.directory().events().expect("readable");
    let cuts = events.iter().filter(|event| &*event.kind == "cut");
    assert_eq!(cuts.count(), 2, "{}", run.output());
}

/// Kills the process of an engine, as `kill -9` does.
fn kills(run: &Running<'_>, engine: &str) {
    let process = process_of(run, engine);
    // SAFETY: the process was seen just now, and only its parent, which is running, reaps it.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
}

#[test]
fn a_process_that_is_killed_is_named_and_ends_the_run() {
    let lab = Lab::with_text(&asks());
    let mut run = lab.start(&[PROCESSES]);
    run.wait_for_line("ask", "far answers");
    kills(&run, "east");
    run.wait().blames(&["engine east", "signal: 9"]);
    lab.assert_nothing_left();
}

#[test]
fn a_run_goes_on_without_a_process_that_is_killed_where_it_is_to() {
    let lab = Lab::with_text(&asks());
    let mut run = lab.start(&[PROCESSES, "network.engines.failure=continue"]);
    run.wait_for_line("ask", "far answers");
    run.wait_until(1.5);
    kills(&run, "east");
    goes_on(
        &lab,
        run,
        "The simulated network's engine east process has died.",
    );
}

/// Scenario with 20 ms between the routers, so that of 200 pings per second some are always in the
/// part of `east`. The host of that part sends pings, too, and simulated traffic of all kinds
/// crosses the link.
fn returns() -> String {
    let back = r#"{ from = "bg-r0", to = "bg-l0", kind = "cubic", name = "back" },"#;
    let beside = Beside {
        size: 1,
        traffic: &format!("{TRAFFIC}{back}"),
    };
    two_engines("returns", "300 s", APART, Some(beside), RETURNS)
}

const RETURNS: &str = r#"
[[system.hosts.far.programs]]
name = "knock"
run = ["ping", "-n", "-i", "0.005", "10.1.0.2"]
[[system.hosts.near.programs]]
name = "ask"
run = ["ping", "-n", "-i", "0.005", "10.2.0.2"]
[[capture]]
link = ["r1", "r2"]
"#;

/// Returns the sequence numbers of the pings that were answered.
fn answered(lab: &Lab, program: &str) -> Vec<u64> {
    let lines = log_lines(&lab.run_path(), program).into_iter();
    let number = |(_, line): (i64, String)| {
        let number = line.split("icmp_seq=").nth(1)?;
        number.split(' ').next()?.parse().ok()
    };
    lines.filter_map(number).collect()
}

#[test]
fn another_process_takes_the_place_of_one_that_is_killed() {
    let lab = Lab::with_text(&returns());
    let encrypts = "network.engines.encrypt=true";
    let mut run = lab.start(&[PROCESSES, encrypts, "network.engines.failure=restart"]);
    run.wait_for_line("ask", "icmp_seq=");
    run.wait_until(2.5);
    let first = process_of(&run, "east");
    kills(&run, "east");
    run.wait_for(
        "no process takes its place",
        |run| matches!(processes_of(run, "east")[..], [other] if other != first),
    );
    for program in ["ask", "knock"] {
        let before = answered(&lab, program).len();
        run.wait_for("no answers any more", |_| {
            answered(&lab, program).len() > before + 100
        });
    }
    let joined = run.virtual_s().expect("it runs");
    run.wait_until(joined + 3.0);
    run.signal(libc::SIGTERM);
    let ended = run.wait();
    lab.assert_nothing_left();
    for program in ["ask", "knock"] {
        let numbers = answered(&lab, program);
        let gap = numbers.windows(2).any(|two| two[1] > two[0] + 1);
        assert!(gap, "{program}: what was in the part that died is lost");
    }

    let events = ended.directory().events().expect("readable");
    let said = |kind: &str, texts: &[&str]| {
        let mut events = events.iter().filter(|event| &*event.kind == kind);
        let found = events.any(|event| texts.iter().all(|text| event.text.contains(text)));
        assert!(found, "{kind}: {texts:?} in {}", ended.output());
    };
    said("died", &["engine east", "another process", "signal: 9"]);
    said("joined", &["engine east", "running again", "was away from"]);
    said("untrusted", &["engine east", "was lost and restarted"]);
    said("cut", &["east-west: ", "after its last message"]);
    said(
        "summary",
        &["east: ", "frames had come before it was there"],
    );
    // Earlier counts must be neither repeated nor lost. The trunk has 10 Mbit/s.
    let trunk = ended
        .directory()
        .series(&["net.link.bg-left-bg-right.throughput"]);
    let trunk = &trunk.expect("readable")[0].samples;
    assert!(
        trunk.iter().all(|(_, bits)| (0.0..10.1e6).contains(bits)),
        "{trunk:?}"
    );
    // Flows that begin in the part must be present again, and so must both ends of its cables.
    for signal in [
        "net.flow.datagrams.throughput",
        "net.flow.bulk.throughput",
        "net.flow.back.throughput",
        "net.flow.bg-l0-bg-r0.throughput",
        "net.link.r1-r2.throughput",
        "net.cut.east-west.packets",
    ] {
        let series = ended.directory().series(&[signal]).expect("readable");
        let later = |at: f64| {
            let samples = series[0].samples.iter();
            samples
                .filter(move |(when, _)| when.as_ns() as f64 * 1e-9 > at)
                .map(|(_, value)| *value)
                .fold(f64::NAN, f64::max)
        };
        // The first sample after that includes the activity before.
        assert!(
            later(joined + 1.0) > 0.0,
            "{signal}: {:?}",
            series[0].samples
        );
    }
}

#[test]
fn all_engines_come_back_while_the_clock_stands() {
    let lab = Lab::with_text(&returns());
    let mut run = lab.start(&[PROCESSES, "network.engines.failure=restart"]);
    run.wait_for_line("ask", "icmp_seq=");
    run.control("pause").expect("it is paused");
    let engines = ["west", "east"];
    let first = engines.map(|engine| process_of(&run, engine));
    for engine in engines {
        kills(&run, engine);
    }
    for (engine, first) in engines.into_iter().zip(first) {
        run.wait_for(
            "no process takes its place",
            |run| matches!(processes_of(run, engine)[..], [other] if other != first),
        );
    }
    let before = answered(&lab, "ask").len();
    run.control("resume").expect("it goes on");
    run.wait_for("no answers any more", |_| {
        answered(&lab, "ask").len() > before + 100
    });
    run.signal(libc::SIGTERM);
    let ended = run.wait();
    lab.assert_nothing_left();
    let events = ended.directory().events().expect("readable");
    let joined = events.iter().filter(|event| &*event.kind == "joined");
    assert_eq!(joined.count(), 2, "{}", ended.output());
}

/// If a run is killed, its engines must end as well.
#[test]
fn engines_end_with_a_run_that_is_killed() {
    let lab = Lab::with_text(&asks());
    let mut run = lab.start(&[PROCESSES]);
    run.wait_for_line("ask", "far answers");
    let processes = [process_of(&run, "west"), process_of(&run, "east")];
    run.signal(libc::SIGKILL);
    run.wait();
    lab.assert_nothing_left();
    // A zombie has no command line.
    let is_there = |process: &i32| {
        fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| !words.is_empty())
    };
    let gone = patiently(Duration::from_secs(60), || !processes.iter().any(is_there));
    assert!(gone, "engines {processes:?} live on");
}
