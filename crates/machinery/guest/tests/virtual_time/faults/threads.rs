//! Tests that a supervisor that may start no more threads still answers.

use crate::support::command_line::{CommandLine, User, eventually};

/// Returns the maximum number of threads and processes for the user of this process.
fn most_tasks(pid: i32) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it lives");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max processes"));
    let hard = line.expect("as in proc(5)").split_whitespace().nth(3);
    hard.and_then(|it| it.parse().ok()).unwrap_or(1 << 20)
}

const ASK: &str = "
import subprocess, time
while True:
    try:
        print('status', subprocess.run(['true']).returncode, flush=True)
    except OSError as error:
        print('errno', error.errno, flush=True)
    time.sleep(0.05)
";

/// An exec needs a thread of the supervisor, and so does a request.
#[test]
fn without_threads_an_exec_fails_and_the_session_goes_on() {
    let line = CommandLine::new("no-threads", User::Nobody);
    let mut running = line.exec(["--", "python3", "-c", ASK]);
    eventually("an exec", || line.output().contains("status 0"));
    let most = most_tasks(running.pid());
    line.limit(running.pid(), "nproc", 0);
    let refused = format!("errno {}", libc::EAGAIN);
    eventually("an exec that is refused", || {
        line.output().contains(&refused)
    });
    let answer = line.try_ask(&["query"]);
    assert!(
        !answer.status.success(),
        "there is no thread for it: {answer:?}"
    );
    line.limit(running.pid(), "nproc", most);
    // The supervisor still serves programs and commands.
    let before = line.output().matches("status 0").count();
    eventually("an exec again", || {
        line.output().matches("status 0").count() > before
    });
    let status = line.ask(&["query"]);
    assert_eq!(status["paused"], false);
    assert!(!line.output().contains("panicked"), "{}", line.output());
    running.signal(libc::SIGTERM);
    running.wait();
    line.assert_nothing_left();
}
