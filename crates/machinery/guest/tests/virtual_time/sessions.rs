//! Tests of names of sessions, exit statuses, and isolation of sessions from each other.

use std::time::Duration;

use timeloom_guest::{CommandSpec, Output, Session, SessionOptions};
use timeloom_test_support::need_root;

use crate::support::command_line::{CommandLine, User, eventually, shell, state_of};
use crate::support::{World, pipe, unique};

/// A second session of the same name is refused, and the first is not affected.
fn a_taken_name(user: User) {
    let line = CommandLine::new("taken", user);
    let _first = line.exec(shell("sleep 3600 & wait"));
    let pids = line.wait_for_process("sleep");
    let second = line
        .command(["exec", "--name", &line.name, "--", "true"])
        .output()
        .expect("running timeloom");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&line.name) && said.contains("already"),
        "{said}"
    );
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(
        line.wait_for_process("sleep"),
        pids,
        "the first session's processes live"
    );
    line.ask(&["pause"]);
    line.ask(&["resume"]);
}

#[test]
fn a_name_that_is_taken_is_refused() {
    a_taken_name(User::Same);
}

#[test]
fn a_name_that_is_taken_is_refused_without_root() {
    need_root();
    a_taken_name(User::Nobody);
}

/// The name of one session may be a prefix of another session's name.
fn similar_names(user: User) {
    let short = CommandLine::new("similar", user);
    let mut long = CommandLine::new("similar", user);
    long.name = format!("{}-2", short.name);
    let running = short.exec(["--", "sleep", "3600"]);
    let _other = long.exec(["--", "sleep", "3600"]);
    let own = short.wait_for_process("sleep");
    let others = long.wait_for_process("sleep");
    assert!(
        own.iter().all(|pid| !others.contains(pid)),
        "{own:?} and {others:?}"
    );
    short.ask(&["pause"]);
    assert_eq!(
        long.ask(&["query"])["paused"],
        false,
        "the other session goes on"
    );
    eventually(
        "the other's programs to sleep, and not to be stopped",
        || others.iter().all(|&pid| state_of(pid) == Some('S')),
    );
    running.signal(libc::SIGKILL);
    short.assert_nothing_left();
    assert_eq!(
        long.wait_for_process("sleep"),
        others,
        "the other session goes on"
    );
}

#[test]
fn sessions_with_similar_names_are_apart() {
    similar_names(User::Same);
}

#[test]
fn sessions_with_similar_names_are_apart_without_root() {
    need_root();
    similar_names(User::Nobody);
}

#[test]
fn several_sessions_in_one_process_have_their_own_clocks() {
    let (one, other) = (World::new("one", 1.0), World::new("other", 10.0));
    let sleeper = one.start(["sleep", "0.3"]);
    let slow = other.start(["sleep", "0.1"]);
    other.session.pause().expect("pausing");
    assert_eq!(sleeper.finish().1, 0, "its clock goes on");
    assert_eq!(
        slow.guest().wait_for(Some(Duration::from_millis(1_500))),
        None,
        "its clock stands"
    );
    assert!(one.pids().is_empty(), "{:?}", one.session.processes());
    assert_eq!(other.pids(), [slow.guest().pid()]);
    other.session.resume().expect("resuming");
    assert_eq!(slow.finish().1, 0);
}

#[test]
fn exit_codes_and_signals_pass_through() {
    let line = CommandLine::new("codes", User::Same);
    for (script, code) in [
        ("exit 0", 0),
        ("exit 77", 77),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -SEGV $$", 139),
        ("kill -KILL $$", 137),
    ] {
        assert_eq!(
            line.exec(shell(script)).wait(),
            code,
            "{script}: {}",
            line.output()
        );
        line.assert_nothing_left();
    }
}

/// The end of a session does not affect a later one of the same name.
#[test]
fn a_name_can_be_used_again_at_once() {
    let name = unique("again");
    for turn in 0..10 {
        let session = Session::new(SessionOptions {
            name: name.clone(),
            clock: Default::default(),
            warn: Box::new(|text| panic!("{text}")),
        })
        .unwrap_or_else(|error| panic!("turn {turn}: {error}"));
        let mut sleeper = CommandSpec::new(["sleep", "3600"]);
        sleeper.output = Output::To(pipe().1);
        let guest = session.spawn(&sleeper).expect("starting sleep");
        let limit = Some(Duration::from_millis(30));
        assert_eq!(guest.wait_for(limit), None, "ended by its predecessor");
        drop(session);
        assert_eq!(guest.wait(), 128 + libc::SIGKILL);
    }
}

#[test]
fn a_program_that_is_not_there_is_the_users_mistake() {
    let line = CommandLine::new("missing", User::Same);
    for program in [
        "/nonexistent/program",
        "no-such-program-anywhere",
        "/etc/passwd",
        "/tmp",
    ] {
        let code = line.exec(["--", program]).wait();
        let said = line.output();
        assert_eq!(code, 2, "{program}: {said}");
        assert!(said.contains(&format!("cannot run `{program}`")), "{said}");
        line.assert_nothing_left();
    }
}

/// A program that could not be started no longer counts as starting, so time skips.
#[test]
fn time_skips_after_a_program_that_is_not_there() {
    let session = Session::new(SessionOptions {
        name: unique("not-there"),
        clock: Default::default(),
        warn: Box::new(|text| panic!("{text}")),
    })
    .expect("a session");
    let started = session.spawn(&CommandSpec::new(["/nonexistent/program"]));
    assert!(started.is_err());
    session.skip_while_waiting(|| true);
    let mut sleeper = CommandSpec::new(["sleep", "3600"]);
    sleeper.output = Output::To(pipe().1);
    let guest = session.spawn(&sleeper).expect("starting sleep");
    assert_eq!(guest.wait_for(Some(Duration::from_secs(120))), Some(0));
}

#[test]
fn a_session_that_is_not_there_is_said_so() {
    let line = CommandLine::new("nowhere", User::Same);
    for request in ["pause", "resume", "query"] {
        let output = line.try_ask(&[request]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!("there is no session `{}`", line.name)),
            "{said}"
        );
    }
}

#[test]
fn impossible_dilations_and_names_are_refused() {
    let line = CommandLine::new("impossible", User::Same);
    for arguments in [
        ["--dilate", "-1"],
        ["--dilate", "nan"],
        ["--dilate", "1e300"],
        ["--name", "a/b"],
        ["--name", ""],
    ] {
        let output = line
            .command(["exec"])
            .args(arguments)
            .args(["--", "true"])
            .output()
            .expect("running timeloom");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
    // The session is refused late, when it is half created. This is repeated, because of races.
    for turn in 0..20 {
        let output = line.command(["exec", "--dilate", "nan", "true"]).output();
        let output = output.expect("running timeloom");
        assert_eq!(output.status.code(), Some(2), "turn {turn}: {output:?}");
    }
}

/// A client that changes the time of a thousand hosts need not wait until all their processes are
/// listed; an answer without a list does not claim that there are none.
#[test]
fn processes_are_listed_only_on_request() {
    let line = CommandLine::new("listed", User::Same);
    let _running = line.exec(shell("sleep 3600 & wait"));
    assert_eq!(line.wait_for_process("sleep").len(), 2);
    for request in [
        &["pause"][..],
        &["step", "1ms"],
        &["resume"],
        &["dilate", "2"],
    ] {
        let status = line.ask(request);
        assert_eq!(status["name"], line.name, "{status}");
        assert!(status.get("processes").is_none(), "{request:?}: {status}");
    }
    let said = |request| {
        let mut command = line.command([request, "--name", &line.name]);
        let output = command.output().expect("running timeloom");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(!said("pause").contains("processes"));
    assert!(said("query").contains("standing, 2 processes"));
    let listed = said("ps");
    assert!(
        listed.contains("2 processes") && listed.contains("sleep"),
        "{listed}"
    );
}

/// A program can choose its name, which is shown on another user's terminal.
#[test]
fn a_name_that_a_program_gives_itself_moves_no_cursor() {
    let world = World::new("named", 1.0);
    let name = r#"printf 'a\033[2J\nb' > /proc/$$/comm"#;
    let _program = world.start(["sh", "-c", &format!("{name}; sleep 3600 & wait")]);
    eventually("the name, harmless", || {
        let all = world.session.processes().expect("they can be looked at");
        all.iter().any(|process| process.name == "a?[2J?b")
    });
}
