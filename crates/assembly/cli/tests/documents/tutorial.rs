//! The tutorial is typed exactly as written, and the two documents that define a tank must fit
//! together.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use timeloom_test_support::need_root;

use crate::blocks::{blocks_of, root};

/// Runs a script in a directory, with `timeloom` on the PATH. Background processes end with the
/// script.
fn bash(script: &str, directory: &Path) -> Output {
    let built = Path::new(env!("CARGO_BIN_EXE_timeloom"));
    let beside = built.parent().expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let script = format!("set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
    Command::new("bash")
        .args(["-c", &script])
        .current_dir(directory)
        .env("PATH", format!("{}:{path}", beside.display()))
        .stdin(Stdio::null())
        .output()
        .expect("bash runs")
}

#[test]
fn the_tutorial_gives_the_output_that_it_shows() {
    need_root();
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let mut script = String::new();
    for block in blocks_of("docs/tutorial.md") {
        if block.kind == "sh run" {
            script += &format!("echo '=== {}'\n{}\n", block.place(), block.text);
        }
    }
    // Other users of this machine may run the same command at the same time.
    let own = format!("live-{}", std::process::id());
    let script = script.replace("live", &own);
    let output = bash(&script, scratch.path());
    let printed = String::from_utf8_lossy(&output.stdout);
    let all = format!("{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}: {all}", output.status);
    let mut rest = &*printed;
    for expected in [
        "Jun  3 ", // 2019, by the first program's clock
        "made plant: experiment.toml, tank.py, keep_level.py",
        "check filled: holds",
        "level 1.0", // a line of the controller's log
        "signals.parquet",
        "check filled: holds", // with slow physics, too
        "check filled: FAILS",
        "exit code 1",
        "exit code 2", // of the misspelt key
        "keep-level",  // in the list of processes
        "the valve answers: ('10.0.0.10', 502)",
        "standing",
        "exit code 1", // of the run that was stopped
        "stopped from outside",
        "check overflows: holds",
        "check kept: holds",
    ] {
        let at = rest.find(expected);
        let at = at.unwrap_or_else(|| panic!("no {expected:?}, or not in its place: {all}"));
        rest = &rest[at + expected.len()..];
    }
    assert!(
        all.contains("duratoin"),
        "the misspelt key is not named: {all}"
    );
}

/// The tank in the document about the protocol must be the plant in the document about scenarios:
/// both must use the same signal name.
#[test]
fn the_two_documents_make_one_experiment() {
    need_root();
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let block = |document: &str, kind: &str, text: &str| {
        let mut found = blocks_of(document);
        found.retain(|block| block.kind == kind && block.text.contains(text));
        assert_eq!(
            found.len(),
            1,
            "{document} has one block of {kind} with {text:?}"
        );
        found.remove(0).text
    };
    let write = |name: &str, text: &str| {
        fs::write(scratch.path().join(name), text).expect("it can be written");
    };
    write("tank.toml", &block("docs/scenario.md", "toml", "schema = "));
    write(
        "tank.py",
        &block("docs/plant-protocol.md", "python", "class Tank"),
    );
    let keep_level = root().join("examples/hello/keep_level.py");
    write(
        "keep_level.py",
        &fs::read_to_string(keep_level).expect("an example"),
    );
    let output = bash(
        "timeloom run tank.toml --set time.mode=skip -o run",
        scratch.path(),
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("check filled: holds"), "{output:?}");
    assert!(output.status.success(), "{output:?}");
}
