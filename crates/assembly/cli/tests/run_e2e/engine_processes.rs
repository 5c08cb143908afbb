//! One simulated network in two engines, each a process: programs talk across the cut, and what
//! becomes of the run when a process is killed.

use std::fs;
use std::time::Duration;

use crate::engines::{ASKS, crosses, goes_on};
use crate::support::{Lab, Running, log_lines, patiently};

const PROCESSES: &str = "network.engines.processes=true";

#[test]
fn programs_talk_across_a_cut_between_processes() {
    crosses("free", &[PROCESSES]);
}

/// 5 ms between the routers, which are two processes'. A ping, and a TCP of the kernel's.
const MEASURES: &str = r#"
schema = "timeloom/1"
name = "apart"
time = { duration = "30 s" }
[network]
routers = ["r1", "r2"]
[network.engines]
parts = { west = ["r1"], east = ["r2"] }
[system]
links = [
    { between = ["near", "r1"] },
    { between = ["r1", "r2"], rate = "20 Mbit/s", delay = "5 ms" },
    { between = ["r2", "far"] },
]
[system.hosts.far]
address = "10.2.0.2/24"
[[system.hosts.far.programs]]
name = "server"
run = ["iperf3", "-s", "--forceflush"]
ready = "log:Server listening"
essential = false
[system.hosts.near]
address = "10.1.0.2/24"
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

/// The process of an engine of this run.
fn process_of(run: &Running<'_>, engine: &str) -> i32 {
    let parent = format!("PPid:\t{}\n", run.pid());
    let is_it = |process: &i32| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}"));
        read("status").is_ok_and(|status| status.contains(&parent))
            && read("cmdline").is_ok_and(|words| words.ends_with(&format!("engine\0{engine}\0")))
    };
    let all = fs::read_dir("/proc").expect("it is there").flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut those: Vec<i32> = all.filter(is_it).collect();
    assert_eq!(those.len(), 1, "the processes of engine {engine}");
    those.remove(0)
}

#[test]
fn iperf3_measures_across_a_cut_between_processes_that_encrypt() {
    let lab = Lab::with_text(MEASURES);
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
    let lines = log_lines(run.directory().path(), "ask");
    let all: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    let text = all.join("\n");
    assert!(text.contains("3 packets transmitted, 3 received"), "{text}");
    // Two MiB take 0.84 s at least on a line of 20 Mbit/s, and came whole.
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

/// As `kill -9` does.
fn kills(run: &Running<'_>, engine: &str) {
    let process = process_of(run, engine);
    // SAFETY: the process was seen just now, and nobody reaps it but its parent, who runs.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
}

#[test]
fn a_process_that_is_killed_is_named_and_ends_the_run() {
    let lab = Lab::with_text(ASKS);
    let mut run = lab.start(&[PROCESSES]);
    run.wait_for_line("ask", "far answers");
    kills(&run, "east");
    run.wait().blames(&["engine east", "signal: 9"]);
    lab.assert_nothing_left();
}

#[test]
fn a_run_goes_on_without_a_process_that_is_killed_where_it_is_to() {
    let lab = Lab::with_text(ASKS);
    let mut run = lab.start(&[PROCESSES, "network.engines.failure=continue"]);
    run.wait_for_line("ask", "far answers");
    kills(&run, "east");
    goes_on(
        &lab,
        run,
        "The simulated network's engine east process has died.",
    );
}

/// A run that is killed itself leaves no engine behind.
#[test]
fn engines_end_with_a_run_that_is_killed() {
    let lab = Lab::with_text(ASKS);
    let mut run = lab.start(&[PROCESSES]);
    run.wait_for_line("ask", "far answers");
    let processes = [process_of(&run, "west"), process_of(&run, "east")];
    run.signal(libc::SIGKILL);
    run.wait();
    lab.assert_nothing_left();
    // Of one that nobody has reaped there are no words left.
    let is_there = |process: &i32| {
        fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| !words.is_empty())
    };
    let gone = patiently(Duration::from_secs(60), || !processes.iter().any(is_there));
    assert!(gone, "engines {processes:?} live on");
}
