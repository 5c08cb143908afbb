//! Tests of `timeloom query --why`: the cause because of which time stands or does not skip is
//! named, in sentences and as JSON.

use std::process::{Child, Command, Stdio};

use serde_json::Value;
use timeloom_test_support::{eventually, wait_for};

use crate::support::{Scratch, timeloom};

/// Session of `timeloom exec` in progress, which is ended when the value is dropped.
struct Session {
    name: String,
    child: Child,
}

impl Session {
    fn start(name: &str, options: &[&str], program: &[&str]) -> Self {
        let name = format!("why-{name}-{}", std::process::id());
        let child = Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .args(["exec", "--quiet", "--name", &name])
            .args(options)
            .arg("--")
            .args(program)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("timeloom can be started");
        Self { name, child }
    }

    /// Returns the answer as JSON; `None` if there is none yet.
    fn why(&self) -> Option<Value> {
        let answer = timeloom(&["query", "--why", "--json", &self.name]);
        let status: Value = serde_json::from_str(&answer.out).ok()?;
        assert!(status["why"].is_object(), "{status}");
        Some(status["why"].clone())
    }

    /// Waits until the answer has a cause for which `is_it` returns true, and returns the cause.
    fn cause(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        wait_for("a cause", || {
            let why = self.why()?;
            let causes = why["causes"].as_array().expect("a list").iter();
            causes.into_iter().find(|cause| is_it(cause)).cloned()
        })
    }

    fn text(&self) -> String {
        let answer = timeloom(&["query", "--why", "--name", &self.name]);
        assert_eq!(answer.code, Some(0), "{}", answer.err);
        answer.out
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_program_that_spins_is_named_where_time_skips() {
    let spin = &["sh", "-c", "while :; do :; done"];
    let session = Session::start("spin", &["--skip"], spin);
    let cause = session.cause(|cause| cause["kind"] == "thread" && cause["busy_ns"].is_i64());
    assert_eq!(cause["activity"], "running", "{cause}");
    assert_eq!(cause["name"], "sh", "{cause}");
    assert_eq!(cause["pid"], cause["thread"], "{cause}");
    let expected = format!("(process {}) runs, and has kept time from", cause["pid"]);
    eventually("a sentence about the thread", || {
        let text = session.text();
        text.contains("It does not skip because of:") && text.contains(&expected)
    });
}

#[test]
fn a_session_in_which_all_programs_wait_for_each_other_has_no_next_event() {
    let scratch = Scratch::new("deadlock");
    let begun = scratch.text("begun");
    // The pipe has a writer, and no data ever comes.
    let program = "import os, sys; open(sys.argv[1], 'w'); os.read(os.pipe()[0], 1)";
    let program = &["python3", "-c", program, &begun];
    let session = Session::start("deadlock", &["--skip"], program);
    eventually("the program begins", || scratch.path("begun").exists());
    eventually("its thread is in a read", || {
        let why = session.why().expect("it answers");
        why["threads"]["awake"] == 0 && why["threads"]["in_calls"]["read"] == 1
    });
    let why = session.why().expect("it answers");
    assert_eq!(why["causes"], serde_json::json!([]), "{why}");
    assert!(why["next"].is_null(), "{why}");
    let text = session.text();
    assert!(text.contains("There is no next event"), "{text}");
    assert!(text.contains("read 1"), "{text}");
}

#[test]
fn a_pause_is_named_with_the_next_deadline() {
    let session = Session::start("pause", &[], &["sleep", "1000"]);
    wait_for("a thread that waits", || {
        (session.why()?["threads"]["until"] == 1).then_some(())
    });
    let paused = timeloom(&["pause", "--name", &session.name]);
    assert_eq!(paused.code, Some(0), "{}", paused.err);
    let cause = session.cause(|cause| cause["kind"] == "pause");
    assert!(cause["stood_ns"].as_i64() > Some(0), "{cause}");
    let why = session.why().expect("it answers");
    assert_eq!(why["passed_ns"], 0, "{why}");
    assert_eq!(why["next"]["origin"], "thread", "{why}");
    assert_eq!(why["next"]["thread"]["name"], "sleep", "{why}");
    let text = session.text();
    assert!(text.contains("(`timeloom resume` continues it)"), "{text}");
}

#[test]
fn a_session_without_a_granter_waits_for_a_grant() {
    let session = Session::start("grant", &["--stepped"], &["sleep", "1000"]);
    let cause = session.cause(|cause| cause["kind"] == "grant");
    assert!(cause["granter"].is_null(), "{cause}");
    let text = session.text();
    assert!(text.contains("no client grants time"), "{text}");
}

#[test]
fn a_session_that_runs_names_no_cause() {
    let session = Session::start("run", &[], &["sleep", "1000"]);
    let why = wait_for("an answer", || session.why());
    assert_eq!(why["causes"], serde_json::json!([]), "{why}");
    assert!(why["passed_ns"].as_i64() > Some(0), "{why}");
    let text = session.text();
    assert!(
        text.contains("Nothing holds it; it runs at dilation 1."),
        "{text}"
    );
}
