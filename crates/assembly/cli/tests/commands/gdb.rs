//! Tests of the arguments of `timeloom gdb`, with a gdb that prints its own.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::support::Scratch;

/// Runs `timeloom gdb` with a fake gdb.
fn gdb(scratch: &Scratch, arguments: &[&str]) -> Output {
    let program = scratch.path("gdb");
    if !program.exists() {
        std::fs::write(&program, "#!/bin/sh\necho \"$*\"\n").expect("a directory of ours");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, executable).expect("it is ours");
    }
    let path = std::env::var("PATH").expect("there is one");
    let mut command = Command::new("timeout");
    command
        .args(["120", env!("CARGO_BIN_EXE_timeloom"), "gdb"])
        .args(arguments)
        .env("PATH", format!("{}:{path}", scratch.text("")));
    command.output().expect("timeout is in coreutils")
}

#[test]
fn every_spelling_of_the_process_attaches_to_it() {
    let scratch = Scratch::new("gdb-spellings");
    for spelling in [
        &["-p", "4711", "-batch"][..],
        &["-p4711", "-batch"],
        &["-p=4711", "-batch"],
        &["-pid", "4711", "-batch"],
        &["-pid=4711", "-batch"],
        &["--pid", "4711", "-batch"],
        &["--pid=4711", "-batch"],
        &["-batch", "-p", "4711"],
        &["-batch", "--pid=4711"],
    ] {
        let done = gdb(&scratch, spelling);
        assert!(done.status.success(), "{spelling:?}: {done:?}");
        assert_eq!(
            String::from_utf8_lossy(&done.stdout),
            "-iex handle SIGSYS nostop noprint pass -p 4711 -batch\n",
            "{spelling:?}"
        );
    }
}

#[test]
fn a_process_that_is_no_number_is_refused_with_the_fix() {
    let scratch = Scratch::new("gdb-mistakes");
    for mistake in [&["-pid", "plc"][..], &["-pid"], &["-p47x1"], &["-pid=0"]] {
        let refused = gdb(&scratch, mistake);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{mistake:?}: {said}");
        assert!(said.contains("timeloom gdb -p PID"), "{mistake:?}: {said}");
    }
}
