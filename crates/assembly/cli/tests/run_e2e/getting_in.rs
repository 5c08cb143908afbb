//! Access to the processes of a run: `timeloom shell`, `exec --in`, `ps` and `logs`.

use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use timeloom_test_support::need;

use crate::support::{Lab, Running, Scenario, log_lines, patiently, timeloom};

/// Returns a run that continues until it is ended, with a program on host `a`.
fn lab() -> Lab {
    let ticks = &["python3", "ticks.py", "0.02"];
    Lab::new(&Scenario::lasting("10 min").program('a', "ticks", ticks, ""))
}

/// Returns the command `timeloom exec --in HOST` for a shell script.
fn inside(lab: &Lab, host: &str, script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
    command
        .args(["exec", "--name", lab.name(), "--in", host, "--", "sh", "-c"])
        .arg(script)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn stop(run: Running<'_>) {
    run.signal(libc::SIGINT);
    assert_eq!(run.wait().code, 1, "it was stopped from outside");
}

/// Returns the number in the output of `date +%s%N`, converted to virtual time of the run.
fn virtual_ns(text: &str) -> i64 {
    const START_NS: i64 = 1_559_520_000 * 1_000_000_000;
    text.trim().parse::<i64>().expect("nanoseconds") - START_NS
}

#[test]
fn a_command_comes_in_to_the_hosts_network_and_clock() {
    let lab = lab();
    let mut run = lab.start(&[]);
    run.wait_for_line("ticks", "tick 3");
    let now = |run: &Running<'_>| {
        let status = run.control("query").expect("it answers");
        status["virtual_ns"].as_i64().expect("a number")
    };
    let before = now(&run);
    let script = "date +%s%N; hostname -I; pwd; cat; exit 7";
    let mut child = inside(&lab, "b", script)
        .stdin(Stdio::piped())
        .current_dir("/var/tmp")
        .spawn()
        .expect("timeloom can be started");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"what it is given\n").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let after = now(&run);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[1..], ["10.0.0.2", "/var/tmp", "what it is given"]);
    let at = virtual_ns(lines[0]);
    assert!(before < at && at < after, "{before} < {at} < {after}");

    let refused = inside(&lab, "c", "true").output().expect("it ends");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        text.contains("there is no host `c`; there are: a, b"),
        "{text}"
    );
    stop(run);
    lab.assert_nothing_left();
}

/// A command in a stopped run must be stopped, too, and must continue with the run.
#[test]
fn a_command_inside_is_paused_with_the_run() {
    let lab = lab();
    let mut run = lab.start(&[]);
    run.wait_for_line("ticks", "tick 3");
    let status = run.control("pause").expect("it stands");
    let stood_at = status["virtual_ns"].as_i64().expect("a number");
    let mut child = inside(&lab, "a", "date +%s%N")
        .spawn()
        .expect("timeloom can be started");
    // The process must exist, before its first instruction.
    wait_for_program(&run, "from outside: sh", 1);
    sleep(Duration::from_millis(300));
    assert!(
        child.try_wait().expect("ours").is_none(),
        "it does not stand"
    );
    run.control("resume").expect("it goes on");
    let output = child.wait_with_output().expect("it ends");
    assert!(virtual_ns(&printed(&output)) >= stood_at);
    stop(run);
    lab.assert_nothing_left();
}

/// Source of a program that takes steps, and sleeps in between.
const STEPS: &str = r#"
#include <stdio.h>
#include <time.h>
static int taken;
static void take_step(void) {
  struct timespec time = {0, 20000000};
  taken++;
  nanosleep(&time, 0);
}
int main(void) {
  for (;;) {
    take_step();
    printf("step %d\n", taken);
    fflush(stdout);
  }
}
"#;

#[test]
fn gdb_started_on_a_host_attaches_to_the_hosts_program() {
    need("gcc", "gcc");
    need("gdb", "gdb");
    let lab = Lab::new(&Scenario::lasting("10 min").program('a', "steps", &["./steps"], ""));
    let (source, program) = (lab.path().join("steps.c"), lab.path().join("steps"));
    std::fs::write(&source, STEPS).expect("it can be written");
    let built = Command::new("gcc")
        .args(["-g", "-O0", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.expect("gcc runs").success());
    let mut run = lab.start(&[]);
    run.wait_for_line("steps", "step 3");
    let processes = wait_for_program(&run, "steps", 1);
    let script = format!(
        "exec timeout 120 gdb -nx -q -batch -ex 'set debuginfod enabled off' \
         -ex 'break take_step' -ex continue -ex continue -ex delete -ex detach -p {}",
        processes[0]["pid"]
    );
    let text = printed(&inside(&lab, "a", &script).output().expect("it ends"));
    let stops = text.matches("Breakpoint 1, take_step ()").count();
    assert_eq!(stops, 2, "{text}");
    assert!(
        text.contains("detached") && !text.contains("signal SIGSYS"),
        "{text}"
    );
    let steps = log_lines(&lab.run_path(), "steps").len();
    run.wait_for_line("steps", &format!("step {}", steps + 5));
    stop(run);
    lab.assert_nothing_left();
}

/// If a terminal is closed, the command in it must end. If a run ends, all commands in it must end.
#[test]
fn a_command_inside_ends_with_its_client_and_with_the_run() {
    let lab = lab();
    let mut run = lab.start(&[]);
    run.wait_for_line("ticks", "tick 3");
    let start = || -> Child {
        let child = inside(&lab, "a", "exec sleep 1000").spawn();
        child.expect("timeloom can be started")
    };
    let mut child = start();
    let processes = wait_for_program(&run, "from outside: sh", 1);
    let ticks = processes.iter().find(|one| one["program"] == "ticks");
    assert_eq!(ticks.expect("the scenario's program")["host"], "a");
    let listed = timeloom(&["ps", "--name", lab.name()]);
    let listed = printed(&listed);
    let words: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        words
            .iter()
            .any(|words| words.get(1..3) == Some(&["a", "ticks"])),
        "{listed}"
    );

    child.kill().expect("ours");
    child.wait().expect("ours");
    wait_for_program(&run, "from outside: sh", 0);

    let child = start();
    wait_for_program(&run, "from outside: sh", 1);
    stop(run);
    let output = child.wait_with_output().expect("it ends");
    // The command ended with the run, which is reported either as a signal or as a missing session.
    assert!(!output.status.success(), "{output:?}");
    lab.assert_nothing_left();
}

/// Waits until the program has `count` processes, and returns them.
fn wait_for_program(run: &Running<'_>, program: &str, count: usize) -> Vec<serde_json::Value> {
    let mut processes = Vec::new();
    let there = patiently(Duration::from_secs(120), || {
        let status = run.control("query").expect("it answers");
        processes = status["processes"].as_array().expect("a list").clone();
        processes
            .iter()
            .filter(|one| one["program"] == program)
            .count()
            == count
    });
    assert!(there, "not {count} of {program}: {processes:?}");
    processes
}

/// `timeloom shell` must give the shell a terminal of its own. The test types commands and Ctrl-C
/// into it, as a user would.
#[test]
fn a_shell_has_a_terminal_of_its_own() {
    let lab = lab();
    let mut run = lab.start(&[]);
    run.wait_for_line("ticks", "tick 3");
    let shell = format!(
        "{} shell a --name {}",
        env!("CARGO_BIN_EXE_timeloom"),
        lab.name()
    );
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &shell, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script is there: it is in Debian's bsdutils");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = child.stdout.take().expect("a pipe");
    let shown = Arc::new(Mutex::new(String::new()));
    let screen = Arc::clone(&shown);
    let reader = std::thread::spawn(move || {
        let mut bytes = [0u8; 1024];
        while let Ok(length @ 1..) = output.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..length]);
            screen.lock().expect("no panic").push_str(&text);
        }
    });
    let text = || shown.lock().expect("no panic").clone();
    let wait_for = |what: &str| {
        let there = patiently(Duration::from_secs(120), || text().contains(what));
        assert!(there, "no {what:?} on the screen: {}", text());
    };
    let mut type_in = |keys: &str| input.write_all(keys.as_bytes()).expect("it reads");
    // The test waits for the shell's prompt, because the client would receive keys typed earlier.
    wait_for("# ");
    type_in("tty; hostname -I\n");
    wait_for("/dev/pts/");
    wait_for("10.0.0.1");
    type_in("sleep 1000\n");
    wait_for_process(&run, "sleep");
    // Ctrl-C must end the command in the shell, and not the shell.
    type_in("\x03");
    type_in("echo $((6 * 7))\n");
    wait_for("42");
    type_in("exit 5\n");
    let status = child.wait().expect("ours");
    reader.join().expect("no panic");
    assert_eq!(status.code(), Some(5), "{}", text());
    stop(run);
    lab.assert_nothing_left();
}

/// Waits until a process with this name exists.
fn wait_for_process(run: &Running<'_>, name: &str) {
    let there = patiently(Duration::from_secs(120), || {
        let status = run.control("query").expect("it answers");
        let processes = status["processes"].as_array().expect("a list");
        processes.iter().any(|one| one["name"] == name)
    });
    assert!(there, "no process {name}");
}

#[test]
fn logs_are_shown_by_virtual_time_while_a_run_goes_on_and_after() {
    let ticks = &["python3", "ticks.py", "0.05"];
    let lab = Lab::new(
        &Scenario::lasting("10 min")
            .program('a', "first", ticks, "")
            .program('b', "second", ticks, "start = \"100 ms\""),
    );
    let mut run = lab.start(&[]);
    run.wait_for_line("second", "tick 3");
    let mut following = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["logs", "-f", "--name", lab.name(), "second"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("timeloom can be started");
    run.wait_for_line("second", "tick 10");
    assert!(following.try_wait().expect("ours").is_none(), "it follows");
    stop(run);
    let followed = printed(&following.wait_with_output().expect("it ends with the run"));
    let log = std::fs::read_to_string(lab.run_path().join("logs/second.log"));
    assert_eq!(
        followed,
        log.expect("the log").trim(),
        "all of it, as it stands"
    );

    let directory = lab.run_path().display().to_string();
    let merged = printed(&timeloom(&["logs", "--run", &directory, "--json"]));
    let lines: Vec<serde_json::Value> = merged
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let at = |line: &serde_json::Value| line["t_ns"].as_i64().expect("a number");
    assert!(lines.is_sorted_by_key(at));
    for program in ["first", "second"] {
        assert!(lines.iter().any(|line| line["program"] == program));
    }
    let missing = timeloom(&["logs", "--run", &directory, "frist"]);
    let text = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        text.contains("there is no log of `frist`; there are: first, second"),
        "{text}"
    );
}
