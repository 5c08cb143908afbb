//! Tests of runs for a span, or until an instant, and no further; and of skipping by request.

use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_guest::run_until;
use timeloom_time::Duration;

use crate::support::command_line::{CommandLine, User, eventually, shell};
use crate::support::{Differential, PATIENCE, World, c_program};

/// Program that reads its clock continuously, and prints each instant at which the clock stood: it
/// read the same nanosecond three times. Fails if the clock goes back.
pub(crate) const READER: &str = "
import time
last = times = 0
while True:
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    if now < last:
        print('back from', last, 'to', now, flush=True)
    times = times + 1 if now == last else 1
    if times == 3:
        print(now, flush=True)
    last = now
";

/// Start date that the tests give their sessions: as text, and in nanoseconds since 1970.
const START: (&str, i64) = ("2000-01-01T00:00:00Z", 946_684_800_000_000_000);

/// This also holds for a reader that the pause has not reached yet.
#[test]
fn a_step_ends_at_exactly_its_instant_for_every_reader() {
    for (factor, least_ns) in [("1", 3_000_003), ("0.1", 30_000_003), ("7", 400_003)] {
        let line = CommandLine::new("step", User::Same);
        let session = ["--paused", "--start", START.0, "--dilate", factor];
        let reader = ["--", "python3", "-c", READER];
        let mut running = line.exec(session.iter().chain(&reader));
        eventually("the session", || line.try_ask(&["query"]).status.success());
        let (mut shown_ns, mut stood) = (0, Vec::new());
        let begun = StdInstant::now();
        for turn in 0.. {
            let span_ns = least_ns + turn % 1_000 * 7_777;
            let answer = line.ask(&["step", &format!("{span_ns}ns")]);
            shown_ns += span_ns;
            stood.push(START.1 + shown_ns);
            assert_eq!(answer["virtual_ns"].as_i64(), Some(shown_ns), "{answer}");
            assert_eq!(answer["paused"].as_bool(), Some(true), "{answer}");
            assert!(answer["stopped_after_ns"].as_i64() >= Some(0), "{answer}");
            // Steps are repeated until the reader has seen some of their ends, on any busy machine.
            if turn > 10 && line.output().lines().count() >= 3 {
                break;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{factor}: no reader was there at any end"
            );
        }
        let seen = line.output();
        for line in seen.lines() {
            let at = line.parse::<i64>().unwrap_or_else(|_| panic!("{seen}"));
            assert!(stood.contains(&at), "{factor}: it stood at {at}: {stood:?}");
        }
        running.signal(libc::SIGTERM);
        running.wait();
    }
}

/// Blocked waits end neither early, nor late, nor with EINTR.
#[test]
fn waits_go_on_from_step_to_step() {
    let world = World::new("steps", 1.0);
    Differential::of(
        ["waits", "libc_waits", "queues", "posix_timers"].map(c_program),
        600,
    )
    .run(&world, |world| {
        let session = Arc::downgrade(&world.session);
        world.session.pause().expect("pausing");
        for turn in 0..60 {
            let span = Duration::from_us(3_000 + 500 * turn);
            let target = world.session.clock().now() + span;
            run_until(&session, target).expect("an instant ahead");
            assert_eq!(world.session.clock().now(), target);
        }
        world.session.resume().expect("resuming");
    });
}

/// Starts `timeloom REQUEST`, which runs until the instant is reached.
fn begin(line: &CommandLine, request: &[&str]) -> Child {
    line.command(request)
        .args(["--json", "--name", &line.name])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("running timeloom")
}

fn refused(output: &Output, code: i32, reason: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(reason), "`{reason}` is not in: {said}");
}

#[test]
fn impossible_steps_are_refused() {
    let line = CommandLine::new("no-step", User::Same);
    let answer = line.try_ask(&["step", "1ms"]);
    refused(&answer, 2, "there is no session");
    let _running = line.exec(["--", "sleep", "3600"]);
    line.wait_for_process("sleep");
    let running = line.try_ask(&["step", "1ms"]);
    refused(&running, 1, "`timeloom pause` it first");
    for span in ["-1ms", "0s"] {
        refused(&line.try_ask(&["step", span]), 2, "must be positive");
        let later = format!("+{span}");
        refused(&line.try_ask(&["run-until", &later]), 2, "must be positive");
    }
    refused(&line.try_ask(&["step", "5"]), 2, "needs a unit");
    line.ask(&["run-until", "+5ms"]);
    for past in ["1us", "0s", "-3s"] {
        refused(&line.try_ask(&["run-until", past]), 1, "in the past");
    }
    assert_eq!(line.ask(&["query"])["paused"].as_bool(), Some(true));
}

#[test]
fn pausing_by_hand_ends_a_run_until() {
    let line = CommandLine::new("early", User::Same);
    let _running = line.exec(["--", "sleep", "3600"]);
    line.wait_for_process("sleep");
    let first = begin(&line, &["run-until", "1h"]);
    eventually("it to be awaited", || {
        // The instant is in the past, so that the request is refused in any case and never waits.
        let second = line.try_ask(&["run-until", "1ns"]);
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        said.contains("runs until 3600 s already")
    });
    // Other changes of the clock meanwhile do not affect the instant at which it stops.
    line.ask(&["dilate", "2"]);
    line.ask(&["pause"]);
    refused(&first.wait_with_output().expect("it ends"), 1, "was paused");
    line.ask(&["resume"]);
    let answer = line.ask(&["run-until", "+3ms"]);
    assert_eq!(answer["paused"].as_bool(), Some(true), "{answer}");
    line.ask(&["resume"]);
    let begun = StdInstant::now();
    let before = line.ask(&["query"])["virtual_ns"].as_i64();
    eventually("the clock goes on", || {
        begun.elapsed() > StdDuration::from_millis(20)
            && line.ask(&["query"])["virtual_ns"].as_i64() > before
    });
}

#[test]
fn a_session_that_ends_before_the_instant_says_so() {
    let line = CommandLine::new("ends", User::Same);
    let mut running = line.exec(shell("sleep 1; exit 4"));
    line.wait_for_process("sleep");
    let waiting = begin(&line, &["run-until", "1h"]);
    assert_eq!(running.wait(), 4);
    let output = waiting.wait_with_output().expect("it ends");
    refused(&output, 1, "ended before");
    line.assert_nothing_left();
}

#[test]
fn a_session_skips_when_it_was_asked_to() {
    let line = CommandLine::new("skips", User::Same);
    let mut running = line.exec(["--skip", "--", "sh", "-c", "sleep 1000; sleep 2000"]);
    // The program sleeps for three thousand seconds, too long to wait for.
    assert_eq!(running.wait(), 0, "{}", line.output());
    line.assert_nothing_left();
}

#[test]
fn skipping_is_switched_on_and_off() {
    let line = CommandLine::new("switch", User::Same);
    let script = "while :; do sleep 1000; echo slept; done";
    let mut running = line.exec(shell(script));
    line.wait_for_process("sleep");
    let status = line.ask(&["query"]);
    assert_eq!(status["skipping"].as_bool(), Some(false), "{status}");
    assert_eq!(line.output(), "", "a thousand seconds are not over yet");
    let status = line.ask(&["skip", "on"]);
    assert_eq!(status["skipping"].as_bool(), Some(true), "{status}");
    eventually("skipped waits", || line.output().lines().count() >= 3);
    // Time also skips up to an instant until which the session is run, and not beyond.
    line.ask(&["pause"]);
    let span_ns = 123_456_000_000_007;
    let before = line.ask(&["query"])["virtual_ns"]
        .as_i64()
        .expect("a number");
    let after = line.ask(&["step", &format!("{span_ns}ns")]);
    assert_eq!(after["virtual_ns"].as_i64(), Some(before + span_ns));
    line.ask(&["resume"]);
    let status = line.ask(&["skip", "off"]);
    assert_eq!(status["skipping"].as_bool(), Some(false), "{status}");
    let slept = line.output();
    std::thread::sleep(StdDuration::from_millis(300));
    // The process that ended just then may still have been exiting.
    let more = line.output().lines().count() - slept.lines().count();
    assert!(more <= 1, "{more} more waits were skipped");
    // With a dilation of 0, waiting takes no wall time: time skips. An infinite dilation stops the
    // clock.
    let status = line.ask(&["dilate", "0"]);
    assert_eq!(status["skipping"].as_bool(), Some(true), "{status}");
    let status = line.ask(&["dilate", "inf"]);
    assert_eq!(status["paused"].as_bool(), Some(true), "{status}");
    line.ask(&["resume"]);
    running.signal(libc::SIGTERM);
    running.wait();
}
