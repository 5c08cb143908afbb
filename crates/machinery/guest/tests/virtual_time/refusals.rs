//! Tests of requests that a session refuses: it reports them, and never silently does something
//! else.

use std::time::SystemTime;

use crate::support::{World, c_program};
#[cfg(target_arch = "x86_64")]
use crate::support::{built, command_line::eventually, must_run, source};

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
        // The user is warned once, with the names.
        let warnings = world.warnings.lock().expect("no panic while held");
        let naming = warnings
            .iter()
            .filter(|text| text.contains(" uses io_uring_setup,"))
            .count();
        assert_eq!(naming, 1, "{warnings:?}");
    }
}

/// Activities that continue in real time without further calls are reported at their start. Calls
/// that only look similar are not reported.
#[test]
fn calls_that_begin_something_in_real_time_are_named() {
    const DONE: &str = "done in real time";
    let expected = [
        ("acct", DONE),
        ("bpf", DONE),
        ("ioctl(NTSYNC_IOC_WAIT_ALL)", DONE),
        ("ioctl(NTSYNC_IOC_WAIT_ANY)", DONE),
        ("ioctl(RTC_RD_TIME)", DONE),
        (
            "ioctl(RTC_SET_TIME)",
            "refused, since it would set the machine's",
        ),
        ("ioctl(TCSETS with VTIME)", DONE),
        ("keyctl", DONE),
        ("perf_event_open", DONE),
        ("sched_setattr(SCHED_DEADLINE)", DONE),
        ("setrlimit(RLIMIT_CPU, RLIMIT_RTTIME)", DONE),
        ("setsockopt(PACKET_RX_RING)", DONE),
        ("setsockopt(SO_TXTIME)", DONE),
        ("setsockopt(TCP_USER_TIMEOUT)", DONE),
        ("syslog", DONE),
    ];
    for (phase, error, expected) in [
        ("quiet", libc::ENOTTY, &[][..]),
        ("named", libc::EOPNOTSUPP, &expected[..]),
    ] {
        let world = World::new("named", 1.0);
        let argv = [c_program("named").into_os_string(), phase.into()];
        let (lines, status) = world.start(argv).finish();
        assert_eq!((lines, status), (vec![format!("set=-1 errno={error}")], 0));
        let calls = world.session.unhandled_calls();
        let named: Vec<_> = calls.iter().map(|call| (call.call, call.outcome)).collect();
        assert_eq!(named, expected);
        assert!(calls.iter().all(|call| call.count == 1), "{calls:?}");
        let warnings = world.warnings.lock().expect("no panic while held");
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
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
    // All calls succeed, on the clock of the session's host.
    let answers: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(answers, ["0/0"; 8]);
    assert!(
        moved.abs() < 1_000_000_000,
        "the machine's clock was moved by {moved} ns"
    );
    assert!(world.session.unhandled_calls().is_empty());
}

/// Returns CLOCK_MONOTONIC in nanoseconds. `std::time::Instant` reads this clock, which is never
/// stepped.
fn monotonic_ns() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `now`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// If the time-stamp counter cannot be emulated, a session that requires this is refused, rather
/// than half virtual.
#[cfg(not(target_arch = "x86_64"))]
#[test]
fn an_emulated_counter_is_refused() {
    let options = timeloom_guest::SessionOptions {
        name: crate::support::unique("no-counter"),
        clock: timeloom_guest::ClockOptions {
            tsc: timeloom_guest::Tsc::Emulate,
            ..Default::default()
        },
        warn: Box::new(|_| ()),
    };
    let refused = timeloom_guest::Session::new(options)
        .err()
        .expect("there is none");
    let refused = refused.to_string();
    assert!(
        refused.contains("CNTVCT_EL0") && refused.contains("without `--tsc emulate`"),
        "{refused}"
    );
}

/// An alternate stack onto which two signals do not fit is refused, as by a kernel that checks
/// this. If handlers of more than two signals are nested, the program ends, and the reason is
/// reported. (On other architectures the kernel checks the space.)
#[cfg(target_arch = "aarch64")]
#[test]
fn a_signal_stack_that_is_too_small_is_refused_or_ends_the_program_with_a_reason() {
    let world = World::new("small-stack", 1.0);
    let program = c_program("small_stack");
    let run = |size: &str, depth: &str| {
        let arguments = [program.as_os_str(), size.as_ref(), depth.as_ref()];
        world.start(arguments).finish()
    };
    let rested = |lines: &str| (vec![lines.to_owned()], 0);
    assert_eq!(run("12288", "1"), rested("rested"));
    assert_eq!(run("16384", "2"), rested("rested"));
    assert_eq!(run("8192", "1"), rested("refused with 12, rested"));
    let warnings = world.warnings.lock().expect("no panic while held").clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("small_stack") && warnings[0].contains("ENOMEM"),
        "{warnings:?}"
    );
    let (lines, status) = run("12288", "2");
    assert_eq!(status, 128 + libc::SIGSEGV, "{lines:?}");
    assert!(lines[0].contains("too small under the clock"), "{lines:?}");
}

/// If the kernel's frames are large (AVX-512), a call that traps in a handler within a handler does
/// not fit onto a stack of 8 KiB. The kernel ends the program, and the session reports the reason.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_program_whose_signals_find_no_room_is_named_with_the_reason() {
    let program = c_program("small_stack");
    let arguments = ["8192", "2"];
    let native = std::process::Command::new(&program)
        .args(arguments)
        .output();
    assert!(native.expect("a program of ours").status.success());
    let world = World::new("no-room", 1.0);
    let run = || {
        let arguments = [
            program.as_os_str(),
            arguments[0].as_ref(),
            arguments[1].as_ref(),
        ];
        world.start(arguments).finish().1
    };
    let status = run();
    if status == 0 {
        println!("three frames fit onto 8 KiB on this processor");
        assert_eq!(world.session.explain_end(128 + libc::SIGSEGV), None);
        return;
    }
    assert_eq!(status, 128 + libc::SIGSEGV);
    if std::fs::File::open("/dev/kmsg").is_err() {
        println!("the kernel's log may not be read here");
        return;
    }
    assert_eq!(world.session.explain_end(0), None);
    // The kernel limits the rate of its messages, over all programs, so one may be missing.
    let mut why = world.session.explain_end(status);
    eventually("the kernel says it", || {
        if why.is_none() {
            why = world.session.explain_end(run());
        }
        why.is_some()
    });
    let why = why.expect("it was said");
    assert!(
        why.contains("small_stack") && why.contains("16 KiB"),
        "{why}"
    );
    // The same message is not reported twice.
    assert_eq!(world.session.explain_end(status), None);
}

/// Covers signal stacks of all sizes. Either a call that traps is answered, or the program ends and
/// the reason is reported; nothing is written below the stack. (On 64-bit ARM, where two signals
/// always fit, this concerns the third one, and sizes from which on the kernel writes nothing
/// below.)
#[test]
fn nothing_is_written_below_a_signal_stack() {
    let program = c_program("small_stack").into_os_string();
    let mut arguments = vec![program, "sizes".into()];
    if cfg!(target_arch = "aarch64") {
        arguments.extend(["3", "4704", "640"].map(Into::into));
    }
    let world = World::new("stack-sizes", 1.0);
    let (lines, status) = world.start(arguments).finish();
    assert_eq!(status, 0, "{lines:?}");
    let count = |what: &str| lines.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!(count(" written below"), 0, "{lines:?}");
    let [answered, ended, refused] = [" answered", " ended, and told", " ended by the kernel"];
    let is_refused = count(refused) > 10 || cfg!(target_arch = "aarch64");
    assert!(
        count(answered) > 10 && count(ended) > 10 && is_refused,
        "{lines:?}"
    );
    let all = count(answered) + count(ended) + count(refused);
    assert_eq!(all, lines.len(), "{lines:?}");
}

/// (The test's program is for x86.)
#[cfg(target_arch = "x86_64")]
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
        Err(error) => panic!(
            "this kernel runs no 32-bit programs ({error}); `scripts/exclusions` excludes this test"
        ),
    }
    let world = World::new("thirty-two", 1.0);
    let (_, status) = world.start([&program]).finish();
    assert_eq!(status, 128 + libc::SIGKILL);
    // A program of the session starts it, too; the session continues.
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
    // The warning comes after the process was killed.
    eventually("two warnings", || {
        world.warnings.lock().expect("no panic while held").len() >= 2
    });
    let warnings = world.warnings.lock().expect("no panic while held");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for text in warnings.iter() {
        assert!(
            text.contains("exit32") && text.contains("32-bit program"),
            "{text}"
        );
    }
}
