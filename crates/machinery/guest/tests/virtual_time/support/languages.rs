//! Programs with the waits of the C program in other languages. Python and bash are on every
//! machine. Where the tools of another language are missing, `scripts/exclusions` excludes the
//! tests of its module.

use std::ffi::OsString;
use std::process::Command;

use timeloom_test_support::need;

use super::build::{built, must_run, source};

/// Command lines of programs that wait.
pub(crate) type Programs = Vec<Vec<OsString>>;

pub(crate) fn scripts() -> Programs {
    let python = "/usr/bin/env".into();
    vec![
        vec![python, "python3".into(), source("waits.py").into()],
        vec!["bash".into(), source("waits.sh").into()],
    ]
}

pub(crate) fn go() -> Programs {
    let program = built("waits.go.static", |output| {
        need("go", "golang-go");
        must_run(
            Command::new("go")
                .envs([("GO111MODULE", "off"), ("CGO_ENABLED", "0")])
                .args(["build", "-o"])
                .arg(output)
                .arg(source("waits.go")),
        );
    });
    vec![vec![program.into()]]
}

pub(crate) fn java() -> Programs {
    need("java", "default-jdk-headless");
    let classes = built(&format!("java-classes-{}", std::process::id()), |output| {
        must_run(
            Command::new("javac")
                .arg("-d")
                .arg(output)
                .arg(source("Waits.java")),
        );
    });
    vec![vec![
        "java".into(),
        "-cp".into(),
        classes.into(),
        "Waits".into(),
    ]]
}

pub(crate) fn node() -> Programs {
    need("node", "nodejs");
    vec![vec!["node".into(), source("waits.js").into()]]
}
