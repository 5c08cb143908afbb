//! What a session does not do for a program: it says so, and never silently
//! does something else.

use std::time::{Duration, SystemTime};

use crate::support::{World, built, c_program, must_run, source};

#[test]
fn calls_that_are_not_virtualised_are_refused_and_reported_with_their_count() {
    for allowed in [false, true] {
        let world = World::new("unhandled", 1.0);
        if allowed {
            world.session.allow_leaks();
        }
        let native = std::process::Command::new(c_program("unhandled"))
            .output()
            .expect("a program of ours");
        let native = String::from_utf8_lossy(&native.stdout).into_owned();
        let native = native.lines().next().unwrap_or_default();
        let (lines, status) = world.start([c_program("unhandled")]).finish();
        let (expected, outcome) = if allowed {
            (native, "done in real time")
        } else {
            ("bad=0 done=0 refused=3", "refused")
        };
        let clone3 = format!("clone3=-1 errno={}", libc::ENOSYS);
        assert_eq!((lines, status), (vec![expected.to_owned(), clone3], 0));
        let calls = world.session.unhandled_calls();
        let [call] = &calls[..] else {
            panic!("one call was made: {calls:?}")
        };
        assert_eq!(
            (call.program.as_str(), call.call, call.outcome, call.count),
            ("unhandled.dynam", "io_uring_setup", outcome, 3)
        );
        // Warned of once, by name.
        let warnings = world.warnings.lock().expect("no panic while held");
        let naming = warnings
            .iter()
            .filter(|text| text.contains(" uses io_uring_setup,"))
            .count();
        assert_eq!(naming, 1, "{warnings:?}");
    }
}

#[test]
fn the_machines_clock_cannot_be_set() {
    let world = World::new("set-time", 1.0);
    let ahead = || {
        let unix = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("after 1970");
        unix.as_nanos() as i128 - i128::from(monotonic_ns())
    };
    let before = ahead();
    let (lines, status) = world.start([c_program("set_time")]).finish();
    let moved = ahead() - before;
    assert_eq!(status, 0);
    // All succeed, on the clock of the session's host.
    let answers: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(answers, ["0/0"; 8]);
    assert!(
        moved.abs() < 1_000_000_000,
        "the machine's clock was moved by {moved} ns"
    );
    assert!(world.session.unhandled_calls().is_empty());
}

/// The same clock that `std::time::Instant` reads, which no step moves.
fn monotonic_ns() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `now`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[test]
fn a_32_bit_program_is_stopped_with_a_reason() {
    let program = built("exit32", |output| {
        let object = output.with_extension("o");
        must_run(
            std::process::Command::new("as")
                .arg("--32")
                .arg(source("exit32.s"))
                .arg("-o")
                .arg(&object),
        );
        must_run(
            std::process::Command::new("ld")
                .args(["-m", "elf_i386"])
                .arg(&object)
                .arg("-o")
                .arg(output),
        );
        std::fs::remove_file(object).expect("just made");
    });
    match std::process::Command::new(&program).status() {
        Ok(status) => assert_eq!(status.code(), Some(5), "natively"),
        Err(error) => return println!("SKIPPED: this kernel runs no 32-bit programs ({error})"),
    }
    let world = World::new("thirty-two", 1.0);
    let (_, status) = world.start([&program]).finish();
    assert_eq!(status, 128 + libc::SIGKILL);
    // Started by a program of the session, too; the session goes on.
    let script = format!("{}; echo status $?", program.display());
    let (lines, status) = world
        .start([
            "sh".as_ref(),
            "-c".as_ref(),
            script.as_ref() as &std::ffi::OsStr,
        ])
        .finish();
    assert_eq!(
        (lines.last().map(String::as_str), status),
        (Some("status 137"), 0)
    );
    std::thread::sleep(Duration::from_millis(50)); // the warning comes after the kill
    let warnings = world.warnings.lock().expect("no panic while held");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for text in warnings.iter() {
        assert!(
            text.contains("exit32") && text.contains("32-bit program"),
            "{text}"
        );
    }
}
