//! Tests of programs that set and steer their host's clock, and of hosts whose clocks differ.

use std::ffi::OsString;
use std::time::Duration as StdDuration;

use timeloom_clock::RateError;
use timeloom_clock::host::HostOscillator;
use timeloom_guest::{CommandSpec, HostOptions, Output};
use timeloom_time::{Duration, Instant};

use crate::support::{World, alone, c_program, pipe};

fn steer(world: &World, what: &str) {
    let program = c_program("steer");
    let argv: [OsString; 2] = [program.into(), what.into()];
    let (lines, status) = world.start(argv).finish();
    assert_eq!(
        (lines.last().map(String::as_str), status),
        (Some("failed=0"), 0),
        "{what}: {lines:#?}"
    );
    let unhandled = world.session.unhandled_calls();
    assert!(unhandled.is_empty(), "{unhandled:?}");
}

#[test]
fn a_program_sets_its_hosts_clock_and_sees_the_kernels_errors() {
    let world = World::new("set", 1.0);
    let before = ahead_ns();
    steer(&world, "set");
    let (_, readings) = world.session.clock().host_readings();
    let error = readings[0].error;
    assert!(error < Duration::ZERO, "set to 2020: {error:?}");
    steer(&world, "errors");
    let moved = ahead_ns() - before;
    assert!(
        moved.abs() < 1_000_000_000,
        "the machine's clock was moved by {moved} ns"
    );
}

/// Returns the machine's CLOCK_REALTIME minus its CLOCK_MONOTONIC, in nanoseconds.
fn ahead_ns() -> i64 {
    let read = |clock| {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes `now`.
        unsafe { libc::clock_gettime(clock, &raw mut now) };
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    read(libc::CLOCK_REALTIME) - read(libc::CLOCK_MONOTONIC)
}

#[test]
fn frequency_tick_and_slew_act_on_monotonic_and_not_on_raw() {
    let world = World::new("rate", 1.0);
    steer(&world, "rate");
}

#[test]
fn waits_for_an_instant_of_realtime_follow_a_step_and_others_do_not() {
    for what in ["forward", "far", "back"] {
        let world = World::new("steps", 1.0);
        steer(&world, what);
    }
}

/// The program also runs natively, with timerfds of the kernel, in the machine of
/// `scripts/test-phc`, whose clock may be set.
#[test]
fn a_timerfd_tells_that_its_clock_was_set_as_the_kernels_does() {
    for dilation in [1.0, 5.0] {
        let world = World::new("cancelled", dilation);
        steer(&world, "cancel");
    }
}

#[test]
fn monotonic_never_goes_back_while_the_clock_is_steered_paused_and_dilated() {
    let world = World::new("storm", 1.0);
    let argv: [OsString; 2] = [c_program("steer").into(), "storm".into()];
    let program = world.start(argv);
    let factors = [5.0, 0.5, 1.0, 0.125];
    for turn in 0..60 {
        world.pause_for(StdDuration::from_micros(500 * (turn % 3)));
        std::thread::sleep(StdDuration::from_millis(5));
        let factor = factors[turn as usize % factors.len()];
        world.session.dilate(factor).expect("a possible factor");
    }
    world.session.dilate(1.0).expect("a possible factor");
    let (lines, status) = program.finish();
    assert_eq!((lines, status), (vec!["failed=0".to_owned()], 0));
}

/// Starts a program on a host and returns its whole output.
fn output_on(world: &World, options: &HostOptions, argv: &[OsString]) -> String {
    output_after(world, options, argv, || ())
}

/// Starts a program like [`output_on`]. Calls `started` after the start.
fn output_after(
    world: &World,
    options: &HostOptions,
    argv: &[OsString],
    started: impl FnOnce(),
) -> String {
    let host = world.session.add_host("far", options).expect("a host more");
    let (read, write) = pipe();
    let mut spec = CommandSpec::new(argv);
    spec.output = Output::To(write);
    spec.host = Some(host);
    let guest = world.session.spawn(&spec).expect("a program");
    drop(spec);
    started();
    let text = std::io::read_to_string(std::fs::File::from(read)).expect("its output");
    assert_eq!(guest.wait(), 0, "{text}");
    text
}

fn numbers(text: &str) -> Vec<i64> {
    let line = text.lines().next().expect("a line");
    line.split(' ')
        .map(|word| word.parse().expect("a number"))
        .collect()
}

#[test]
fn hosts_have_clocks_of_their_own() {
    let world = World::new("hosts", 1.0);
    let show: [OsString; 2] = [c_program("steer").into(), "show".into()];
    let (lines, _) = world.start(show.clone()).finish();
    let options = HostOptions {
        oscillator: HostOscillator {
            frequency: RateError::from_ppb(100_000),
            ..HostOscillator::default()
        },
        seed: 1,
        offset: Duration::from_ms(-100),
        ..HostOptions::default()
    };
    let there = numbers(&output_on(&world, &options, &show));
    let here = numbers(&lines[0]);
    // This is CLOCK_REALTIME minus CLOCK_MONOTONIC, which only a step changes.
    let behind = there[0] - here[0] + 100_000_000;
    assert!(behind.abs() < 1_000, "{behind}");

    let errors = |at: Instant<_>| {
        world.session.clock().wait_until(at, || false);
        let (at, readings) = world.session.clock().host_readings();
        let errors: Vec<i64> = readings.iter().map(|r| r.error.as_ns()).collect();
        (at, errors)
    };
    let (began, first) = errors(world.session.clock().now());
    let (ended, second) = errors(began + Duration::from_ms(500));
    assert_eq!((first[0], second[0]), (0, 0), "the ideal host is right");
    let drifted = (second[1] - first[1]) as f64;
    let expected = (ended - began).as_ns() as f64 * 100e-6;
    assert!((drifted - expected).abs() < 10.0, "{drifted} {expected}");
}

#[test]
fn time_skips_to_the_deadline_of_a_host_whose_clock_runs_differently() {
    if alone("host_clocks::time_skips_to_the_deadline_of_a_host_whose_clock_runs_differently") {
        return;
    }
    let world = World::new("host-skip", 1.0);
    // The host's clock is 1 % fast: a thousand of its seconds pass in 990.1 true seconds.
    let options = HostOptions {
        oscillator: HostOscillator {
            frequency: RateError::from_ppb(10_000_000),
            wander: RateError::from_ppb(1),
            ..HostOscillator::default()
        },
        seed: 1,
        offset: Duration::ZERO,
        ..HostOptions::default()
    };
    let began = world.session.clock().now();
    output_after(&world, &options, &["sleep".into(), "1000".into()], || {
        // Before there is a program, time skips to the next change of the oscillator.
        world.session.skip_while_waiting(|| true);
    });
    // The duration includes the start of the program, on a machine of any speed.
    let lasted = (world.session.clock().now() - began).as_s_f64();
    assert!((990.0..998.0).contains(&lasted), "{lasted}");
}

/// The wait began before the clock was steered, in one turn in the kernel. When the clock is made
/// 10 % faster, the wait must end at its deadline, and not later by a tenth.
#[test]
fn a_wait_follows_a_clock_that_is_made_faster() {
    let script = "import ctypes, threading, time\n\
        class Timex(ctypes.Structure):\n\
        \x20   _fields_ = [('modes', ctypes.c_uint), ('four', ctypes.c_long * 4), ('status', ctypes.c_int),\n\
        \x20       ('six', ctypes.c_long * 5), ('tick', ctypes.c_long), ('rest', ctypes.c_long * 20)]\n\
        def wait():\n\
        \x20   begun = time.monotonic()\n\
        \x20   time.sleep(8)\n\
        \x20   print(round(1000 * (time.monotonic() - begun)), flush=True)\n\
        thread = threading.Thread(target=wait)\n\
        thread.start()\n\
        time.sleep(0.2)\n\
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex\n\
        assert adjtimex(ctypes.byref(Timex(modes=0x4000, tick=11000))) >= 0, ctypes.get_errno()\n\
        thread.join()\n";
    // A busy machine delays one wait, but not every one.
    let mut lasted_ms = Vec::new();
    while !lasted_ms.iter().any(|ms| *ms < 8_500) && lasted_ms.len() < 5 {
        let world = World::new("faster", 0.5);
        let mut program = world.start(["python3", "-c", script]);
        let ms: i64 = program.next_line().parse().expect("milliseconds");
        assert!(ms >= 8_000, "{ms} ms instead of 8 s");
        lasted_ms.push(ms);
    }
    let follows = lasted_ms.iter().any(|ms| *ms < 8_500);
    assert!(follows, "{lasted_ms:?} ms instead of 8 s");
}
