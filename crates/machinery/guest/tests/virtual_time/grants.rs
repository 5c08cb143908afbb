//! Tests of sessions whose time moves by grants: exactly as far as granted, by any granter; and
//! their behaviour without a granter.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use serde_json::{Value, json};
use timeloom_guest::{ClockOptions, Grants, Stepped, SteppedSession, runtime_directory, serve};

use crate::support::command_line::{CommandLine, Running, User, eventually, shell};
use crate::support::languages::scripts;
use crate::support::{Differential, World, c_program};

const MS: i64 = 1_000_000;

/// Simulator's connection to the control socket.
struct Granter {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Granter {
    fn connect(session: &str) -> Self {
        let path = runtime_directory().join(format!("{session}.sock"));
        let mut connected = None;
        eventually("the session", || {
            connected = UnixStream::connect(&path).ok();
            connected.is_some()
        });
        let stream = connected.expect("just connected");
        let answers = BufReader::new(stream.try_clone().expect("duplicating a socket"));
        Self { stream, answers }
    }

    /// Sends a request. Returns the status, or the reason of a refusal.
    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        writeln!(self.stream, "{request}").expect("the session listens");
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .expect("the session answers");
        let mut answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        match answer.get_mut("ok") {
            Some(status) => Ok(status.take()),
            None => Err(answer["error"].as_str().expect("a text").to_owned()),
        }
    }

    fn attach(&mut self) -> Result<Value, String> {
        self.ask(&json!({"op": "attach"}))
    }

    /// Grants time until `until_ns`. Panics unless the session then stands at exactly that instant.
    /// Returns the status.
    fn grant(&mut self, until_ns: i64) -> Value {
        let request = json!({"op": "run-until", "at_ns": until_ns, "relative": false});
        let status = self.ask(&request).expect("it is granted");
        assert_eq!(status["virtual_ns"], until_ns, "{status}");
        assert_eq!(status["paused"], true, "{status}");
        assert_eq!(status["standing"]["ended"], false, "{status}");
        status
    }
}

fn next_deadline_ns(status: &Value) -> Option<i64> {
    let next = &status["standing"]["next_deadline_ns"];
    assert!(next.is_null() || next.is_i64(), "{status}");
    next.as_i64()
}

/// Grants time in small steps until a thread waits for an instant that has not been granted yet.
/// Returns the present instant and the awaited one.
fn until_a_thread_waits(granter: &mut Granter, mut at_ns: i64) -> (i64, i64) {
    for _ in 0..5_000 {
        at_ns += 5 * MS;
        let status = granter.grant(at_ns);
        if let Some(next_ns) = next_deadline_ns(&status).filter(|next_ns| *next_ns > at_ns) {
            return (at_ns, next_ns);
        }
    }
    panic!("no thread ever waits");
}

/// Covers the waits of several languages, while a simulator computes between grants. No wait may
/// end early, late or otherwise than natively.
#[test]
fn programs_cannot_tell_a_grant_from_the_next() {
    let world = World::with_clock(
        "granted",
        ClockOptions {
            paused: true,
            ..ClockOptions::default()
        },
    );
    let clock = Arc::clone(world.session.clock());
    let grants = Arc::new(Grants::new(clock, StdDuration::from_secs(600), None));
    let stepped = Arc::new(SteppedSession::new(Arc::clone(&world.session), grants));
    serve(&stepped).expect("a socket");
    stepped.grants().open();
    let mut differential = Differential::of(
        ["waits", "libc_waits", "queues", "posix_timers"].map(c_program),
        600,
    );
    differential.programs.extend(scripts());
    let name = world.session.name().to_owned();
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = Arc::clone(&over);
    // Time is granted from the start, since programs initialise in the session's time.
    let simulator = std::thread::spawn(move || {
        let mut granter = Granter::connect(&name);
        let mut at_ns = granter.attach().expect("it is the only granter")["virtual_ns"]
            .as_i64()
            .expect("a number");
        let mut granted = 0;
        while !seen.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(StdDuration::from_millis(30));
            at_ns += 100 * MS;
            granter.grant(at_ns);
            granted += 1;
        }
        granted
    });
    differential.run(&world, |_| ());
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    let granted: u64 = simulator.join().expect("every grant was exact");
    let tally = stepped.grants().tally();
    assert_eq!(tally.grants, granted);
    assert!(granted >= 6, "a wait of 600 ms takes six grants");
    // There were 30 ms between every two grants.
    assert!(tally.waited.as_ns() >= 30 * MS * (granted as i64 - 1));
}

/// Nothing may happen before the reported deadline, to the nanosecond, and at the deadline the
/// sleeper must continue.
#[test]
fn a_sleeper_wakes_at_the_deadline_that_was_told() {
    let line = CommandLine::new("told", User::Same);
    let script = "
import time
while True:
    time.sleep(0.25)
    print(time.clock_gettime_ns(time.CLOCK_REALTIME), flush=True)
";
    let start = ["--stepped", "--start", "2000-01-01T00:00:00Z"];
    let mut running = line.exec(start.iter().chain(&["--", "python3", "-c", script]));
    let mut granter = Granter::connect(&line.name);
    let first = granter.attach().expect("it is the only granter");
    assert_eq!(first["virtual_ns"], 0, "it starts held: {first}");
    let mut at_ns = 0;
    for _ in 0..5 {
        let (_, due_ns) = until_a_thread_waits(&mut granter, at_ns);
        let before = line.output();
        let status = granter.grant(due_ns - 1);
        // The deadline is now if the sleeper was stopped on its way back to sleep.
        let next_ns = next_deadline_ns(&status).expect("it waits");
        assert!((due_ns - 1..=due_ns).contains(&next_ns), "{status}");
        assert_eq!(line.output(), before, "it went on before {due_ns}");
        at_ns = due_ns - 1;
        let slept = || line.output().lines().count() > before.lines().count();
        while !slept() {
            at_ns += 5 * MS;
            granter.grant(at_ns);
            assert!(at_ns < due_ns + 60_000 * MS, "it sleeps on");
        }
        let seen = line.output();
        let woke: i64 = seen.lines().last().expect("a line").parse().expect(&seen);
        let woke_ns = woke - 946_684_800_000_000_000;
        assert!((due_ns..=at_ns).contains(&woke_ns), "{due_ns} {woke_ns}");
    }
    running.signal(libc::SIGTERM);
    running.wait();
}

/// Each sleep lasts a thousand seconds: within a grant, waiting takes no wall time.
#[test]
fn grants_and_skipping_go_together() {
    let line = CommandLine::new("granted-skips", User::Same);
    let script = "while :; do sleep 1000; echo slept; done";
    let mut running = line.exec(
        ["--stepped", "--skip"]
            .into_iter()
            .map(Into::into)
            .chain(shell(script)),
    );
    let mut granter = Granter::connect(&line.name);
    granter.attach().expect("it is the only granter");
    let mut at_ns = 0;
    for _ in 0..10 {
        at_ns += 2_500_000 * MS + 1;
        granter.grant(at_ns);
    }
    // A few of the 25 sleeps may be missing because they took long to begin.
    let slept = line.output().lines().count();
    assert!((20..=25).contains(&slept), "{slept}");
    running.signal(libc::SIGTERM);
    running.wait();
}

#[test]
fn one_grants_at_a_time() {
    let line = CommandLine::new("one-granter", User::Same);
    let mut running = line.exec(["--stepped", "--", "sleep", "3600"]);
    let mut first = Granter::connect(&line.name);
    first.attach().expect("it is the only granter");
    let own = std::process::id().to_string();
    for mut other in [Granter::connect(&line.name), Granter::connect(&line.name)] {
        let refused = other.attach().expect_err("there is one");
        assert!(refused.contains(&own), "it is not named: {refused}");
    }
    let output = line.try_ask(&["step", "1ms"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("one granter only"), "{said}");
    assert!(line.ask(&["query"])["standing"].is_null(), "others may ask");
    first.grant(3 * MS);
    drop(first);
    // From here on, the user is the granter, for one step each.
    // The one before has disconnected, which the session need not have noticed yet.
    let status = line.ask(&["step", "4ms"]);
    assert_eq!(status["virtual_ns"], 7 * MS, "{status}");
    assert_eq!(status["standing"]["grants"], 2, "{status}");
    let status = line.ask(&["run-until", "9ms"]);
    assert_eq!(status["virtual_ns"], 9 * MS, "{status}");
    running.signal(libc::SIGTERM);
    running.wait();
}

#[test]
fn invalid_grants_are_refused_and_change_nothing() {
    let line = CommandLine::new("not-granted", User::Same);
    let mut running = line.exec(["--stepped", "--", "sleep", "3600"]);
    let mut granter = Granter::connect(&line.name);
    granter.attach().expect("it is the only granter");
    granter.grant(5 * MS);
    for (request, reason) in [
        (
            json!({"op": "run-until", "at_ns": 4 * MS, "relative": false}),
            "in the past",
        ),
        (
            json!({"op": "run-until", "at_ns": 5 * MS, "relative": false}),
            "in the past",
        ),
        (
            json!({"op": "run-until", "at_ns": -1, "relative": false}),
            "in the past",
        ),
        (json!({"op": "step", "span_ns": 0}), "must be positive"),
        (json!({"op": "step", "span_ns": -5}), "must be positive"),
        (
            json!({"op": "step", "span_ns": i64::MAX}),
            "beyond the range",
        ),
        (json!({"op": "step"}), "not a request"),
        (json!({"op": "resume"}), "by grants only"),
    ] {
        let refused = granter.ask(&request).expect_err("it is refused");
        assert!(refused.contains(reason), "{request}: {refused}");
    }
    let status = line.ask(&["query"]);
    assert_eq!(
        (&status["virtual_ns"], &status["paused"]),
        (&json!(5 * MS), &json!(true))
    );
    assert_eq!(granter.grant(6 * MS)["standing"]["grants"], 2);
    running.signal(libc::SIGTERM);
    running.wait();
}

#[test]
fn a_session_that_is_not_stepped_needs_no_granter() {
    let line = CommandLine::new("not-stepped", User::Same);
    let mut running = line.exec(["--", "sleep", "3600"]);
    let refused = Granter::connect(&line.name).attach();
    let refused = refused.expect_err("it runs by itself");
    assert!(refused.contains("--stepped"), "{refused}");
    // The program may be in the middle of its launch.
    running.signal(libc::SIGTERM);
    running.wait();
    line.assert_nothing_left();
}

/// The user may hold the session too. The grant is then used later.
#[test]
fn a_pause_by_hand_delays_a_grant_and_does_not_end_it() {
    let line = CommandLine::new("both-hold", User::Same);
    let mut running = line.exec(["--stepped", "--", "sleep", "3600"]);
    let mut granter = Granter::connect(&line.name);
    granter.attach().expect("it is the only granter");
    line.ask(&["pause"]);
    let granting = std::thread::spawn(move || {
        granter.grant(200 * MS);
        granter
    });
    std::thread::sleep(StdDuration::from_millis(300));
    let status = line.ask(&["query"]);
    assert_eq!(
        (&status["virtual_ns"], &status["paused"]),
        (&json!(0), &json!(true))
    );
    line.ask(&["dilate", "2"]);
    assert_eq!(line.ask(&["query"])["virtual_ns"], 0, "it still stands");
    line.ask(&["resume"]);
    let mut granter = granting.join().expect("it stands where it was granted to");
    let output = line.try_ask(&["resume"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("by grants only"), "{said}");
    line.ask(&["pause"]);
    line.ask(&["resume"]);
    assert_eq!(
        line.ask(&["query"])["virtual_ns"],
        200 * MS,
        "it went on unasked"
    );
    granter.grant(201 * MS);
    running.signal(libc::SIGTERM);
    running.wait();
}

#[test]
fn a_granter_hears_of_the_programs_end() {
    let line = CommandLine::new("granted-end", User::Same);
    let mut running = line.exec(
        ["--stepped"]
            .into_iter()
            .map(Into::into)
            .chain(shell("sleep 0.1; exit 3")),
    );
    let mut granter = Granter::connect(&line.name);
    granter.attach().expect("it is the only granter");
    let request = json!({"op": "run-until", "at_ns": 3_600_000 * MS, "relative": false});
    let status = granter.ask(&request).expect("it is answered");
    assert_eq!(status["standing"]["ended"], true, "{status}");
    let at_ns = status["virtual_ns"].as_i64().expect("a number");
    assert!((100 * MS..3_600_000 * MS).contains(&at_ns), "{status}");
    assert_eq!(running.wait(), 3);
    line.assert_nothing_left();
}

/// A granter that computes when the session ends learns of the end at its next request.
#[test]
fn a_granter_that_computes_at_the_end_hears_of_it_next() {
    let line = CommandLine::new("ended-between", User::Same);
    let options = ["--stepped"].into_iter().map(Into::into);
    let mut running = line.exec(options.chain(shell("sleep 0.1; exit 3")));
    let mut granter = Granter::connect(&line.name);
    granter.attach().expect("it is the only granter");
    // With the user's permission, another process ends the program.
    granter.grant(MS);
    eventually("the shell", || {
        let status = line.ask(&["query"]);
        let first = &status["processes"][0]["pid"];
        first.as_i64().is_some_and(|pid| {
            // SAFETY: a process of our own session. It is stopped, so it cannot have ended.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) == 0 }
        })
    });
    assert_eq!(running.wait(), 128 + libc::SIGKILL);
    // The granter's connection is closed, but the last message can still be read.
    let mut last = String::new();
    granter.answers.read_line(&mut last).expect("its last line");
    let last: Value = serde_json::from_str(&last).unwrap_or_else(|_| panic!("{last:?}"));
    assert_eq!(last["ok"]["standing"]["ended"], true, "{last}");
    assert_eq!(last["ok"]["virtual_ns"], MS, "{last}");
}

fn stands_for_ever(line: &CommandLine, more: &[&str]) -> Running {
    let mut options = vec!["--stepped"];
    options.extend(more);
    options.extend(["--", "sleep", "3600"]);
    line.exec(options)
}

/// The granter dies either between two grants, or in the middle of one.
#[test]
fn a_session_whose_granter_dies_stands_says_so_and_ends() {
    for midway in [false, true] {
        let line = CommandLine::new("left-alone", User::Same);
        let mut running = stands_for_ever(&line, &["--patience", "3 s"]);
        let mut granter = Granter::connect(&line.name);
        granter.attach().expect("it is the only granter");
        granter.grant(7 * MS);
        let mut stands_ns = 7 * MS;
        if midway {
            stands_ns = 500 * MS;
            let request = json!({"op": "run-until", "at_ns": stands_ns, "relative": false});
            writeln!(granter.stream, "{request}").expect("the session listens");
        }
        drop(granter);
        eventually("it to say so", || {
            line.output().contains("has disconnected")
        });
        let output = line.try_ask(&["query"]);
        // On a very busy machine the session may have ended already. Then its output is checked
        // instead.
        if let Ok(status) = serde_json::from_slice::<Value>(&output.stdout) {
            assert_eq!(status["virtual_ns"], stands_ns, "{status}");
            assert_eq!(status["paused"], true, "{status}");
        }
        assert_eq!(running.wait(), 1);
        let said = line.output();
        let own = format!("({})", std::process::id());
        for words in ["timeloom: granter: ", &own, "no granter connected for 3 s"] {
            assert!(said.contains(words), "no {words:?} in {said}");
        }
        line.assert_nothing_left();
    }
}

#[test]
fn a_session_without_a_granter_ends() {
    let line = CommandLine::new("nobody", User::Same);
    let mut running = stands_for_ever(&line, &["--patience", "500 ms"]);
    assert_eq!(running.wait(), 1);
    let said = line.output();
    assert!(said.contains("granter: no granter has connected"), "{said}");
    line.assert_nothing_left();
}

/// A stopped program cannot receive Ctrl-C itself.
#[test]
fn ctrl_c_ends_a_session_that_stands() {
    let line = CommandLine::new("interrupted", User::Same);
    let mut running = stands_for_ever(&line, &[]);
    let mut granter = Granter::connect(&line.name);
    granter.attach().expect("it is the only granter");
    granter.grant(MS);
    running.signal_group(libc::SIGINT);
    assert_eq!(running.wait(), 128 + libc::SIGINT);
    line.assert_nothing_left();
}

fn is_killed_while_it_stands(user: User) {
    let line = CommandLine::new("killed-held", user);
    let mut running = stands_for_ever(&line, &[]);
    eventually("a grant", || {
        line.try_ask(&["step", "1ms"]).status.success()
    });
    running.signal(libc::SIGKILL);
    assert_eq!(running.wait(), 128 + libc::SIGKILL);
    line.assert_nothing_left();
}

#[test]
fn a_supervisor_that_is_killed_while_it_stands_leaves_nothing_frozen() {
    is_killed_while_it_stands(User::Same);
}

#[test]
fn a_supervisor_that_is_killed_while_it_stands_leaves_nothing_frozen_without_root() {
    timeloom_test_support::need_root();
    is_killed_while_it_stands(User::Nobody);
}
