//! Tests of output that has no reader, and of commands that cannot be executed.

use std::process::{Command, Stdio};

use crate::support::timeloom;

/// The situation is that of `timeloom schema | head` after `head` has ended.
#[test]
fn a_reader_that_leaves_is_no_panic() {
    for arguments in [&["schema"][..], &["doctor", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(141), "{arguments:?}: {said}");
        assert_eq!(said, "", "{arguments:?}");
    }
}

#[test]
fn a_failed_write_to_standard_output_is_reported() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .arg("schema")
        .stdout(full)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left"), "{said}");
}

#[test]
fn there_is_no_session_inside_a_session() {
    let inner = env!("CARGO_BIN_EXE_timeloom");
    let ended = timeloom(&["exec", "--", inner, "exec", "--", "true"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("in a session already"), "{}", ended.err);
}
