//! Steps of a user through a run, by its pause wire, up to the end of the run.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use timeloom_test_support::eventually;

fn timeloom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(arguments)
        .output()
        .expect("running timeloom")
}

/// Returns the session's answer to a request.
fn ask(name: &str, request: &[&str]) -> serde_json::Value {
    let output = timeloom(&[request, &["--json", "--name", name]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{request:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Returns the message with which the session refuses a request.
fn refused(name: &str, request: &[&str]) -> String {
    let output = timeloom(&[request, &["--name", name]].concat());
    assert_eq!(output.status.code(), Some(1), "{request:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_can_be_stepped_through() {
    let directory = std::env::temp_dir().join(format!("timeloom-steps-{}", std::process::id()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut run = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["run", "examples/hello/hello.toml", "-o"])
        .arg(&directory)
        .current_dir(&root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("running timeloom");
    let name = format!("run-{}", run.id());
    // Requests are refused while the run starts, and its plant also pauses the run from time to
    // time.
    eventually(&name, || {
        timeloom(&["pause", "--name", &name]).status.success()
    });
    let mut shown_ns = ask(&name, &["query"])["virtual_ns"].as_i64().expect("one");
    for span_ns in [250_000_001, 1_000, 333_000_000] {
        shown_ns += span_ns;
        let answer = ask(&name, &["step", &format!("{span_ns}ns")]);
        assert_eq!(answer["virtual_ns"].as_i64(), Some(shown_ns), "{answer}");
        assert_eq!(answer["paused"].as_bool(), Some(true), "{answer}");
    }
    let said = refused(&name, &["skip", "on"]);
    assert!(said.contains("mode = \"skip\""), "{said}");
    ask(&name, &["resume"]);
    let said = refused(&name, &["step", "1ms"]);
    assert!(said.contains("is running"), "{said}");
    let said = refused(&name, &["run-until", "1h"]);
    assert!(said.contains("beyond the end of the run"), "{said}");
    assert!(run.wait().expect("it ends").success());
    fs::remove_dir_all(&directory).expect("its results");
}
