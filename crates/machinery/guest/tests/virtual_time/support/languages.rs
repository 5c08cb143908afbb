//! The same waits in other languages. Their tools are optional on a developer's
//! machine, except Python and bash: what is missing is said and left out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::build::{built, must_run, ready, source};

/// Command lines of the programs of waits whose language is here.
pub(crate) fn waits() -> Vec<Vec<OsString>> {
    let mut programs = vec![
        vec![
            "/usr/bin/env".into(),
            "python3".into(),
            source("waits.py").into(),
        ],
        vec!["bash".into(), source("waits.sh").into()],
    ];
    let go_is_ready = ready("waits.go.static").is_some();
    if go_is_ready || here("go", "version") {
        programs.push(vec![go().into()]);
    }
    if here("javac", "-version") && here("java", "-version") {
        programs.push(vec![
            "java".into(),
            "-cp".into(),
            java_classes().into(),
            "Waits".into(),
        ]);
    }
    if here("node", "--version") {
        programs.push(vec!["node".into(), source("waits.js").into()]);
    }
    programs
}

pub(crate) fn here(tool: &str, question: &str) -> bool {
    let mut command = Command::new(tool);
    let found = command
        .arg(question)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !found {
        println!("SKIPPED: `{tool}` is not installed, so programs in its language were not tested");
    }
    found
}

fn go() -> PathBuf {
    built("waits.go.static", |output| {
        must_run(
            Command::new("go")
                .envs([("GO111MODULE", "off"), ("CGO_ENABLED", "0")])
                .args(["build", "-o"])
                .arg(output)
                .arg(source("waits.go")),
        );
    })
}

fn java_classes() -> PathBuf {
    built(&format!("java-classes-{}", std::process::id()), |output| {
        must_run(
            Command::new("javac")
                .arg("-d")
                .arg(output)
                .arg(source("Waits.java")),
        );
    })
}
