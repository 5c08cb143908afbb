//! Tests of `timeloom unregister`: a released program must not be touched, even if the supervisor
//! is killed afterwards.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use timeloom_test_support::eventually;

fn timeloom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(arguments)
        .output()
        .expect("running timeloom")
}

fn done(arguments: &[&str]) {
    let output = timeloom(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

/// Program that answers each line with the year that it and a child process see.
const PROGRAM: &str = "import subprocess, sys, time\n\
    for line in sys.stdin:\n\
    \x20   time.sleep(0.02)\n\
    \x20   child = subprocess.run(['date', '+%Y'], capture_output=True, text=True)\n\
    \x20   print(time.gmtime().tm_year, child.stdout.strip(), child.returncode, flush=True)\n";

#[test]
fn a_program_that_was_let_go_outlives_a_killed_supervisor() {
    let _turn = timeloom_test_support::orphans_turn();
    let name = format!("unregister-{}", std::process::id());
    let mut supervisor = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["exec", "--name", &name, "--start", "2019-06-03T00:00:00Z"])
        .args(["--", "sleep", "1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("running timeloom");
    eventually(&name, || {
        timeloom(&["query", "--name", &name]).status.success()
    });
    let mut program = Command::new("python3")
        .args(["-u", "-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("running python3");
    let mut orders = program.stdin.take().expect("piped");
    let mut answers = BufReader::new(program.stdout.take().expect("piped")).lines();
    let mut ask = || {
        orders.write_all(b"\n").expect("it reads");
        answers.next().expect("it answers").expect("text")
    };
    let native = ask();
    let pid = program.id().to_string();
    let refused = timeloom(&["unregister", &pid, "--name", &name]);
    assert_eq!(refused.status.code(), Some(1));
    done(&["register", &pid, "--name", &name]);
    assert_eq!(ask(), "2019 2019 0");
    done(&["unregister", &pid, "--name", &name]);
    assert_eq!(ask(), native);
    supervisor.kill().expect("our own child");
    supervisor.wait().expect("our own child");
    // The session's reaper and `timeloom clean` must not touch the program either.
    done(&["clean"]);
    for _ in 0..3 {
        assert_eq!(ask(), native);
    }
    drop(orders);
    assert!(program.wait().expect("it ends").success());
}
