//! Tests of `timeloom timeline` as users and scripts use it: with real processes and a real kill.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use timeloom_test_support::Traces;
use timeloom_test_support::{MemoryLimit, wait_for};

/// Answers have a short lifetime, so that the test can observe its end.
const CONFIG: &str = r#"
[[timeline]]
name = "short"
scale = "local"
fresh_for = "1 s"
alive_for = "600 ms"
time_to_live = "2500 ms"
poll = { shortest = "50 ms", longest = "200 ms" }
[[timeline.source]]
type = "system-clock"
vouched_error = "0 ns"
"#;

struct Daemon(Child);

impl Daemon {
    fn start(directory: &Path) -> Self {
        Self::start_with(directory, CONFIG)
    }

    fn start_with(directory: &Path, text: &str) -> Self {
        let config = directory.join("timelines.toml");
        std::fs::write(&config, text).unwrap();
        let child = Traces::in_directory(directory)
            .mark(&mut timeloom())
            .args(["timeline", "serve", "--config"])
            .arg(&config)
            .arg("--directory")
            .arg(directory)
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Ends the daemon with SIGTERM, as a service manager does.
    fn end(mut self) {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        self.0.wait().unwrap();
    }

    /// Kills the daemon, so that it cannot tidy up.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn timeloom() -> Command {
    Command::new(env!("CARGO_BIN_EXE_timeloom"))
}

fn timeline(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = timeloom();
    command
        .arg("timeline")
        .args(arguments)
        .arg("--directory")
        .arg(directory);
    command.output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null)
}

/// Reads the timeline until `wanted` returns true for the reading. Returns that reading.
fn read_until(directory: &Path, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    wait_for("a reading", || {
        let reading = json(&timeline(directory, &["read", "short", "--json"]));
        wanted(&reading).then_some(reading)
    })
}

#[test]
fn a_killed_daemon_is_noticed_and_its_page_adopted() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let first = Daemon::start(directory);
    let reading = read_until(directory, |reading| reading["status"] == "ok");
    assert!(reading["earliest_ns"].as_i64() <= reading["latest_ns"].as_i64());
    // This reader keeps the page open.
    let page = std::fs::File::open(directory.join("short.page")).unwrap();
    let inode =
        |file: &std::fs::File| std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let list = json(&timeline(directory, &["list", "--json"]));
    assert_eq!(list["daemon"]["pid"], first.0.id());
    assert_eq!(list["daemon"]["sources"][0]["source"], "system-clock");
    let second = timeline(directory, &["serve", "short", "--source", "system-clock"]);
    assert_eq!(
        second.status.code(),
        Some(2),
        "two daemons for one timeline"
    );
    first.kill();
    let dead = read_until(directory, |reading| reading["status"] == "daemon_dead");
    assert_eq!(dead["timeline"], reading["timeline"]);
    let void = read_until(directory, |reading| reading["latest_ns"].is_null());
    assert_eq!(void["status"], "daemon_dead");
    assert_eq!(
        timeline(directory, &["read", "short"]).status.code(),
        Some(1)
    );
    // The socket file must still exist, without a daemon that serves it; the next daemon takes it
    // over.
    assert!(directory.join("short.sock").exists());
    let list = json(&timeline(directory, &["list", "--json"]));
    assert!(list["daemon"].is_null());
    let successor = Daemon::start(directory);
    read_until(directory, |reading| reading["status"] == "ok");
    let now = std::fs::File::open(directory.join("short.page")).unwrap();
    assert_eq!(
        inode(&page),
        inode(&now),
        "the page is the same, for readers that have it mapped"
    );
    assert_eq!(page.metadata().unwrap().len(), 4096);
    let watched = timeline(
        directory,
        &[
            "watch", "short", "--count", "3", "--every", "10 ms", "--json",
        ],
    );
    assert_eq!(String::from_utf8_lossy(&watched.stdout).lines().count(), 3);
    drop(successor);
}

/// The effect must be that of a kill: the published data stay, and another daemon continues.
#[test]
fn a_daemon_that_is_out_of_memory_is_noticed_and_its_page_adopted() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let traces = Traces::in_directory(directory);
    let mut daemon = Daemon::start(directory);
    read_until(directory, |reading| reading["status"] == "ok");
    let limit = MemoryLimit::of(daemon.0.id());
    limit.set(0);
    let deadline = Instant::now() + Duration::from_secs(120);
    let status = loop {
        // Each connection makes the daemon allocate a little memory.
        timeline(directory, &["list", "--json"]);
        if let Some(status) = daemon.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it lives by no memory");
    };
    assert_eq!(status.signal(), Some(9), "{status}");
    read_until(directory, |reading| reading["status"] == "daemon_dead");
    let successor = Daemon::start(directory);
    read_until(directory, |reading| reading["status"] == "ok");
    successor.end();
    traces.assert_nothing_left();
}

/// Readers must notice that the daemon does not update the page, and when it does so again.
#[test]
fn a_stopped_daemon_is_dead_until_it_continues() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let traces = Traces::in_directory(directory);
    let daemon = Daemon::start(directory);
    read_until(directory, |reading| reading["status"] == "ok");
    let pid = daemon.0.id() as i32;
    // SAFETY: our own child, which has not been waited for.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    let dead = read_until(directory, |reading| reading["status"] == "daemon_dead");
    assert_eq!(dead["timeline"].as_str().map(str::len), Some(32), "{dead}");
    read_until(directory, |reading| reading["latest_ns"].is_null());
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    let again = read_until(directory, |reading| reading["status"] == "ok");
    assert!(again["earliest_ns"].as_i64() <= again["latest_ns"].as_i64());
    daemon.end();
    traces.assert_nothing_left();
}

#[test]
fn mistakes_have_their_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let code = |arguments: &[&str]| timeline(place.path(), arguments).status.code();
    assert_eq!(code(&["serve", "x", "--source", "sundial"]), Some(2));
    assert_eq!(code(&["serve", "x"]), Some(2), "no source");
    assert_eq!(
        code(&["serve", "../x", "--source", "system-clock"]),
        Some(2)
    );
    assert_eq!(code(&["serve", "--config", "/nonexistent"]), Some(2));
    assert_eq!(code(&["list"]), Some(0));
}

#[test]
fn an_unknown_timeline_is_answered_with_the_known_ones() {
    let place = tempfile::tempdir().unwrap();
    let refused = |name| {
        let output = timeline(place.path(), &["read", name]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let without = refused("nope");
    assert!(without.contains("there is none"), "{without}");
    let daemon = Daemon::start(place.path());
    read_until(place.path(), |reading| reading["status"] == "ok");
    let others = refused("nope");
    assert!(others.contains("there are `short`"), "{others}");
    drop(daemon);
}

/// The source of the timeline cannot be queried, and the reading must say so.
#[test]
fn a_timeline_that_never_synchronises_states_the_reason() {
    let scratch = tempfile::tempdir().unwrap();
    let text = CONFIG.replace(
        "type = \"system-clock\"\nvouched_error = \"0 ns\"",
        "type = \"chrony\"\naddress = \"/nowhere/chronyd.sock\"",
    );
    assert_ne!(text, CONFIG);
    let _daemon = Daemon::start_with(scratch.path(), &text);
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let read = timeline(scratch.path(), &["read", "short"]);
        let why = String::from_utf8_lossy(&read.stderr);
        if why.contains("has not answered yet") && why.contains("/nowhere") {
            assert_eq!(read.status.code(), Some(1));
            return;
        }
        assert!(Instant::now() < deadline, "{read:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
