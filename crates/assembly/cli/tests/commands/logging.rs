//! Tests of the log: `TIMELOOM_LOG` selects it, `--log-json` its format, and without both there is
//! none.

use std::process::{Command, Output};

fn exec(filter: Option<&str>, options: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
    command.env_remove("TIMELOOM_LOG");
    command.envs(filter.map(|filter| ("TIMELOOM_LOG", filter)));
    command.args(options).args(["exec", "--quiet", "--"]);
    command.args(program).output().expect("timeloom can be run")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_a_filter_nothing_is_logged() {
    let output = exec(None, &[], &["true"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(errors(&output), "");
}

#[test]
fn spans_of_a_launch_and_of_an_exec_are_logged() {
    let output = exec(Some("debug"), &[], &["sh", "-c", "exec true"]);
    assert!(output.status.success(), "{output:?}");
    let log = errors(&output);
    let close = |span: &str| {
        log.lines().any(|line| {
            line.contains(" DEBUG ") && line.contains(span) && line.contains("time.busy=")
        })
    };
    assert!(close("launch{"), "{log}");
    assert!(close("exec{"), "{log}");
    assert!(log.contains("program=\"true\""), "{log}");
    assert!(log.contains("virtual_ns="), "{log}");
    // Skips are logged at a level of their own.
    assert!(!log.contains(" TRACE "), "{log}");
}

#[test]
fn skips_are_logged_at_the_level_trace() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
    command.env("TIMELOOM_LOG", "timeloom_guest=trace");
    command.args(["exec", "--quiet", "--skip", "--", "sleep", "1000"]);
    let output = command.output().expect("timeloom can be run");
    assert!(output.status.success(), "{output:?}");
    let log = errors(&output);
    let has_skip = |line: &str| line.contains(" TRACE ") && line.contains("virtual_ns=1000");
    assert!(log.lines().any(has_skip), "{log}");
}

#[test]
fn lines_of_the_log_are_objects_if_asked_for() {
    let output = exec(Some("debug"), &["--log-json"], &["true"]);
    assert!(output.status.success(), "{output:?}");
    let log = errors(&output);
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let launched = lines.iter().find(|line| line["message"] == "launched");
    let launched = launched.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(launched["level"], "DEBUG");
    assert_eq!(launched["span"]["name"], "launch");
    assert!(launched["pid"].as_i64() > Some(0), "{launched}");
    assert!(launched["virtual_ns"].is_i64(), "{launched}");
}

#[test]
fn a_filter_that_is_none_is_refused_with_its_wrong_part() {
    let output = exec(Some("info,verbose"), &[], &["true"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = errors(&output);
    assert!(
        said.contains("TIMELOOM_LOG=info,verbose has `verbose` in it"),
        "{said}"
    );
}

#[test]
fn programs_do_not_inherit_the_filter() {
    let script = "echo log=${TIMELOOM_LOG-unset}";
    let output = exec(Some("error"), &[], &["sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "log=unset\n");
}

/// A program can choose its name, which is a field of a line. It must not write lines of its own,
/// nor command the terminal.
#[test]
fn texts_of_programs_stay_within_their_line() {
    let program = "
import ctypes, subprocess
libc = ctypes.CDLL(None)
libc.prctl(15, b'a\\x1b[2J\\nDEBUG b', 0, 0, 0)
subprocess.run(['true'])
";
    let output = exec(Some("debug"), &[], &["python3", "-c", program]);
    assert!(output.status.success(), "{output:?}");
    assert!(!output.stderr.contains(&0x1b), "{}", errors(&output));
    let log = errors(&output);
    assert!(
        !log.lines().any(|line| line.starts_with("DEBUG b")),
        "{log}"
    );
}
