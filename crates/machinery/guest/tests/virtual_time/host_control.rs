//! Tests of single hosts that are paused, dilated and stepped while the session continues.

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_guest::{ClockOptions, Host, HostTarget, HostTimeState, run_hosts_until};
use timeloom_test_support::need_root;
use timeloom_time::{Duration, Instant};

use crate::stops::READER;
use crate::support::command_line::{eventually, state_of};
use crate::support::{Differential, PATIENCE, Program, Scratch, World, alone, c_program};

fn all_waits() -> Differential {
    let programs = ["waits", "libc_waits", "queues", "posix_timers", "sockets"];
    Differential::of(programs.map(c_program), 600)
}

/// Includes timestamps of packets. They are read after so few changes that the clock's past
/// readings are still stored.
fn waits_and_stamps() -> Differential {
    let mut all = all_waits();
    all.programs.push(vec![c_program("stamps").into()]);
    all
}

fn time_of(world: &World, host: &Host) -> HostTimeState {
    let (_, times) = world.session.clock().host_times();
    let time = times
        .into_iter()
        .find(|time| time.host.name() == host.name());
    time.expect("it is one of the session's")
}

fn pause(world: &World, host: &Arc<Host>) {
    world
        .session
        .pause_hosts(std::slice::from_ref(host))
        .expect("pausing a host");
}

fn resume(world: &World, host: &Arc<Host>) {
    world
        .session
        .resume_hosts(std::slice::from_ref(host))
        .expect("resuming a host");
}

fn dilate(world: &World, host: &Arc<Host>, factor: f64) {
    world
        .session
        .dilate_hosts(std::slice::from_ref(host), factor)
        .expect("a possible factor");
}

/// Pauses the host for a second in the middle. No wait may count the pause, end early, or return
/// EINTR.
#[test]
fn waits_exclude_a_pause_of_their_host() {
    let (world, host) = World::with_host("host-pause");
    waits_and_stamps().run(&world, |world| {
        world.run_for(StdDuration::from_millis(200));
        pause(world, &host);
        assert!(!world.session.clock().is_paused(), "the session goes on");
        std::thread::sleep(world.long());
        resume(world, &host);
    });
    let behind = time_of(&world, &host).behind;
    assert!(behind >= Duration::from_s(1), "{behind}");
}

#[test]
fn blocked_waits_follow_the_rate_of_their_host() {
    for (theme, first, second) in [("host-faster", 5.0, 0.5), ("host-slower", 0.5, 5.0)] {
        let (world, host) = World::with_host(theme);
        dilate(&world, &host, first);
        waits_and_stamps().run(&world, |world| {
            world.run_for(StdDuration::from_millis(300));
            dilate(world, &host, second);
        });
    }
}

/// Pauses the host within pauses of the session, around them and across them, and changes both
/// rates.
#[test]
fn waits_last_as_long_as_ever_through_nested_pauses_and_rates() {
    let (world, host) = World::with_host("host-storm");
    let differential = Differential {
        wait_ms: 2_000,
        ..all_waits()
    };
    differential.run(&world, |world| {
        for turn in 0..120u64 {
            let nap = || std::thread::sleep(StdDuration::from_millis(1 + turn % 4));
            match turn % 4 {
                0 => pause(world, &host),
                1 => world.session.pause().map(drop).expect("pausing"),
                2 => dilate(world, &host, [0.5, 2.0, 1.0][turn as usize % 3]),
                _ => world
                    .session
                    .dilate([1.0, 0.25][turn as usize % 2])
                    .expect("a possible factor"),
            }
            nap();
            match turn % 3 {
                0 => resume(world, &host),
                1 => world.session.resume().expect("resuming"),
                _ => nap(),
            }
        }
        dilate(world, &host, 1.0);
        world.session.dilate(1.0).expect("a possible factor");
        world.session.resume().expect("resuming");
        resume(world, &host);
    });
}

/// CLOCK_REALTIME at the beginning of the session, in nanoseconds since 1970.
const START_NS: i64 = 946_684_800_000_000_000;

/// The end must be exact to the nanosecond, for a program that reads its clock until it is stopped.
/// The next step must begin at the nanosecond at which the last one ended.
#[test]
fn a_step_of_a_host_ends_at_exactly_its_instant() {
    let options = ClockOptions {
        start: Some(Instant::from_ns(START_NS)),
        ..ClockOptions::default()
    };
    let world = World::with_clock("host-step", options);
    let host = world.add_host("far");
    let mut reader = world.start_on(Some(Arc::clone(&host)), ["python3", "-c", READER]);
    assert!(computes(reader.guest().pid(), PATIENCE));
    dilate(&world, &host, 0.7);
    pause(&world, &host);
    let session = Arc::downgrade(&world.session);
    // A pause never goes behind a value that a reader may have seen. That is a nanosecond more if
    // the maps before and after the pause round differently.
    let paused = time_of(&world, &host).lived;
    let mut ends = vec![paused + Duration::from_ns(1), paused];
    let mut turn = 0;
    // Steps are repeated until the reader has seen some of their ends, on any busy machine.
    eventually("the reader at some ends", || {
        let span = Duration::from_ns(1_000_003 + turn % 1_000 * 7_777);
        ends.push(ends[ends.len() - 1] + span);
        let target = HostTarget::After(span);
        run_hosts_until(&session, &[Arc::clone(&host)], target).expect("a paused host");
        let time = time_of(&world, &host);
        assert_eq!(Some(&time.lived), ends.last());
        assert!(time.held && !world.session.clock().is_paused());
        turn += 1;
        turn > 50 && reader.printed().len() > 3
    });
    world.session.kill_all();
    let (seen, _) = reader.finish();
    for line in seen {
        let at_ns: i64 = line.parse().unwrap_or_else(|_| panic!("{line}"));
        let at = Instant::from_ns(at_ns - START_NS);
        assert!(ends.contains(&at), "it stood at {at:?}: {ends:?}");
    }
}

/// Blocked waits continue from step to step.
#[test]
fn waits_go_on_from_step_to_step_of_their_host() {
    let (world, host) = World::with_host("host-steps");
    all_waits().run(&world, |world| {
        let session = Arc::downgrade(&world.session);
        pause(world, &host);
        for turn in 0..60 {
            let lived = time_of(world, &host).lived;
            let span = Duration::from_us(3_000 + 500 * turn);
            let target = HostTarget::At(lived + span + Duration::from_ms(20));
            run_hosts_until(&session, &[Arc::clone(&host)], target).expect("an instant ahead");
        }
        resume(world, &host);
    });
}

fn switches(pid: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines.collect::<Vec<_>>().join(" ")
}

/// Threads that wait on another host are neither stopped nor woken: they do not even run.
#[test]
fn other_hosts_notice_nothing() {
    let (world, host) = World::with_host("host-others");
    let other = world.add_host("near");
    let _here = world.start(["sleep", "3600"]);
    let there = world.start_on(Some(Arc::clone(&other)), ["sleep", "3600"]);
    let pid = there.guest().pid();
    eventually("the other host's program sleeps", || {
        let before = switches(pid);
        std::thread::sleep(StdDuration::from_millis(100));
        switches(pid) == before && state_of(pid) == Some('S')
    });
    let before = switches(pid);
    for turn in 1..20 {
        pause(&world, &host);
        dilate(&world, &host, f64::from(turn));
        resume(&world, &host);
    }
    assert_eq!(switches(pid), before);
    assert_eq!(time_of(&world, &other).behind, Duration::ZERO);
    let behind = time_of(&world, &host).behind;
    assert!(behind > Duration::ZERO, "{behind}");
}

/// Returns the processor time that a process has used, in clock ticks.
fn used(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let rest = &stat[stat.rfind(')').expect("a name") + 2..];
    let fields: Vec<&str> = rest.split(' ').collect();
    [11, 12]
        .iter()
        .map(|&i| fields[i].parse::<u64>().expect("ticks"))
        .sum()
}

fn spin(world: &World, host: &Arc<Host>) -> Program {
    world.start_on(Some(Arc::clone(host)), ["sh", "-c", "while :; do :; done"])
}

/// Returns true if a process computes. Polls until it does, for at most `patience`.
fn computes(pid: i32, patience: StdDuration) -> bool {
    let (begun, before) = (StdInstant::now(), used(pid));
    while begun.elapsed() < patience {
        if used(pid) > before + 1 {
            return true;
        }
        std::thread::sleep(StdDuration::from_millis(5));
    }
    false
}

const STANDS: StdDuration = StdDuration::from_millis(150);

/// A process runs if neither its session nor its host is stopped, in whatever order they were
/// stopped and resumed.
#[test]
fn pauses_of_host_and_session_nest() {
    let (world, host) = World::with_host("host-nest");
    let other = world.add_host("near");
    let (here, there) = (spin(&world, &host), spin(&world, &other));
    let (here, there) = (here.guest().pid(), there.guest().pid());
    let expect = |here_runs: bool, there_runs: bool| {
        for (pid, runs) in [(here, here_runs), (there, there_runs)] {
            let patience = if runs { PATIENCE } else { STANDS };
            assert_eq!(computes(pid, patience), runs, "{here_runs} {there_runs}");
        }
    };
    expect(true, true);
    pause(&world, &host);
    expect(false, true);
    world.session.pause().expect("pausing");
    expect(false, false);
    world.session.resume().expect("resuming");
    expect(false, true);
    world.session.pause().expect("pausing");
    resume(&world, &host);
    expect(false, false);
    world.session.resume().expect("resuming");
    expect(true, true);
    world.session.pause().expect("pausing");
    pause(&world, &host);
    world.session.dilate(0.5).expect("a possible factor");
    expect(false, false);
    world.session.resume().expect("resuming");
    expect(false, true);
    dilate(&world, &host, 2.0);
    expect(false, true);
    resume(&world, &host);
    expect(true, true);
}

#[test]
fn a_program_of_a_paused_host_is_born_standing() {
    let (world, host) = World::with_host("host-born");
    pause(&world, &host);
    let stood = time_of(&world, &host).lived;
    let mut program = world.start(["sh", "-c", "echo began; exec sleep 0.1"]);
    let pid = program.guest().pid();
    // The code that attaches the process has run in it until here, for as long as that takes.
    let scheduled = || fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it lives");
    eventually("it to stand", || {
        let before = scheduled();
        std::thread::sleep(STANDS);
        scheduled() == before && state_of(pid) != Some('R')
    });
    assert_eq!(program.printed(), [""; 0], "it began");
    assert_eq!(time_of(&world, &host).lived, stood);
    resume(&world, &host);
    program.wait_for("began");
    assert_eq!(program.finish().1, 0);
}

/// The frames stay in the socket of the host's kernel until the host continues.
#[test]
fn frames_to_a_paused_host_wait_for_it() {
    let script = "import socket\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.bind(('127.0.0.1', 0))\n\
        s.settimeout(2)\n\
        print(s.getsockname()[1], flush=True)\n\
        while True: print(s.recv(99).decode(), flush=True)\n";
    let (world, host) = World::with_host("host-frames");
    let mut program = world.start(["python3", "-c", script]);
    let port: u16 = program.next_line().parse().expect("a port");
    pause(&world, &host);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for number in 0..20 {
        let text = format!("datagram {number}");
        let sent = socket.send_to(text.as_bytes(), ("127.0.0.1", port));
        sent.expect("loopback takes it");
    }
    // By the session's clock, this is longer than the timeout of the program.
    let passed = world.session.clock().now() + Duration::from_s(3);
    world.session.dilate(0.05).expect("a possible factor");
    world.session.clock().wait_until(passed, || false);
    world.session.dilate(1.0).expect("a possible factor");
    resume(&world, &host);
    for number in 0..20 {
        assert_eq!(program.next_line(), format!("datagram {number}"));
    }
    let (lines, status) = program.finish();
    assert_eq!(status, 1, "its timeout, at last: {lines:?}");
}

/// Neither the deadlines of a paused host nor its processes prevent time from skipping. The
/// deadlines of a dilated host come when they are due by the host's own time.
#[test]
fn time_skips_past_a_paused_host_and_with_a_dilated_one() {
    if alone("host_control::time_skips_past_a_paused_host_and_with_a_dilated_one") {
        return;
    }
    let (world, host) = World::with_host("host-skips");
    let other = world.add_host("near");
    let mut waiting = world.start(["sh", "-c", "echo began; exec sleep 100"]);
    waiting.wait_for("began");
    let busy = spin(&world, &host);
    assert!(computes(busy.guest().pid(), PATIENCE));
    pause(&world, &host);
    let began = world.session.clock().now();
    world.session.skip_while_waiting(|| true);
    let slow = Arc::clone(&other);
    dilate(&world, &slow, 2.0);
    let sleeper = world.start_on(Some(slow), ["sleep", "1000"]);
    assert_eq!(sleeper.finish().1, 0);
    let lasted = (world.session.clock().now() - began).as_s_f64();
    // The result is not 1000, and not 4000. Anything above 2000 is the delay by a busy machine.
    assert!((2_000.0..2_900.0).contains(&lasted), "{lasted}");
    let behind = time_of(&world, &host).behind.as_s_f64();
    assert!((lasted - behind).abs() < 900.0, "{behind} of {lasted}");
    // The rest of the program's wait is still to come.
    busy.guest().signal(libc::SIGKILL);
    let lived = time_of(&world, &host).lived;
    resume(&world, &host);
    assert_eq!(waiting.finish().1, 0);
    let slept = (time_of(&world, &host).lived - lived).as_s_f64();
    assert!((1.0..900.0).contains(&slept), "{slept}");
    // Time also skips to an instant to which a host is run, and the host stops there.
    pause(&world, &host);
    let span = Duration::from_ns(123_456_000_000_007);
    let target = time_of(&world, &host).lived + span;
    let session = Arc::downgrade(&world.session);
    run_hosts_until(&session, &[Arc::clone(&host)], HostTarget::After(span)).expect("it is ahead");
    assert_eq!(time_of(&world, &host).lived, target);
}

/// A host that is paused in the middle of an exec does not prevent time from skipping.
#[test]
fn time_skips_past_a_host_that_stands_in_an_exec() {
    if alone("host_control::time_skips_past_a_host_that_stands_in_an_exec") {
        return;
    }
    let (world, host) = World::with_host("host-execs");
    let other = world.add_host("near");
    // The program is in an exec most of the time.
    let busy = world.start_on(
        Some(Arc::clone(&host)),
        ["sh", "-c", "while :; do env true; done"],
    );
    world.session.skip_while_waiting(|| true);
    for _ in 0..8 {
        assert!(computes(busy.guest().pid(), PATIENCE));
        pause(&world, &host);
        let sleeper = world.start_on(Some(Arc::clone(&other)), ["sleep", "1000"]);
        assert_eq!(sleeper.finish().1, 0);
        resume(&world, &host);
    }
}

#[test]
fn processor_time_is_divided_by_the_dilation_of_its_host() {
    // Prints used processor time and passed time, in three parts, with changes of the rate between
    // them.
    let script = "import time\n\
        for part in range(3):\n\
        \x20   passed, spent = time.monotonic(), time.process_time()\n\
        \x20   while time.monotonic() < passed + 0.15: pass\n\
        \x20   print(time.process_time() - spent, time.monotonic() - passed, flush=True)\n\
        \x20   time.sleep(0.05)\n";
    let (world, host) = World::with_host("host-cpu");
    dilate(&world, &host, 4.0);
    let mut program = world.start(["python3", "-c", script]);
    for factor in [2.0, 0.5, 1.0] {
        let line = program.next_line();
        let numbers: Vec<f64> = line
            .split(' ')
            .map(|n| n.parse().expect("a number"))
            .collect();
        let (spent, passed) = (numbers[0], numbers[1]);
        // The program has used at most one processor's time, and more than nothing.
        assert!(spent > 0.0 && spent < passed * 1.2 + 0.02, "{line}");
        dilate(&world, &host, factor);
    }
    assert_eq!(program.finish().1, 0);
}

#[test]
fn impossible_requests_to_hosts_are_refused() {
    let (world, host) = World::with_host("host-refuses");
    let named = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        world.session.hosts_named(&names)
    };
    assert_eq!(named(&["far", "far"]).expect("there is one").len(), 1);
    let refused = |names: &[&str], reason: &str| {
        let said = named(names).expect_err("there is none").to_string();
        assert!(said.contains(reason), "{said}");
    };
    refused(&["nowhere"], "there are: far");
    refused(&[], "no host");
    refused(&[""], "there is no host");
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e5] {
        let hosts = [Arc::clone(&host)];
        assert!(world.session.dilate_hosts(&hosts, factor).is_err());
    }
    let session = Arc::downgrade(&world.session);
    let hosts = [Arc::clone(&host)];
    let run = |target| run_hosts_until(&session, &hosts, target);
    let past = run(HostTarget::At(Instant::from_ns(1)));
    let said = past.expect_err("it is past").to_string();
    assert!(said.contains("in the past"), "{said}");
    world.session.pause().expect("pausing");
    let said = run(HostTarget::After(Duration::from_ms(1)))
        .expect_err("the session is paused")
        .to_string();
    assert!(said.contains("the session is paused"), "{said}");
}

/// Steps two hosts together. Each runs for the span by its own time.
#[test]
fn hosts_are_stepped_together_and_a_pause_ends_it() {
    let (world, host) = World::with_host("host-both");
    let other = world.add_host("near");
    dilate(&world, &other, 0.25);
    let both = [Arc::clone(&host), Arc::clone(&other)];
    world.session.pause_hosts(&both).expect("pausing");
    let lived = || both.clone().map(|host| time_of(&world, &host).lived);
    let before = lived();
    let session = Arc::downgrade(&world.session);
    let span = Duration::from_ns(40_000_001);
    run_hosts_until(&session, &both, HostTarget::After(span)).expect("two paused hosts");
    assert_eq!(lived(), before.map(|at| at + span));
    let hour = HostTarget::After(Duration::from_s(3_600));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run_hosts_until(&session, &both, hour));
        eventually("they run", || !time_of(&world, &host).held);
        eventually("they run somewhere", || {
            let again = run_hosts_until(&session, &both, HostTarget::At(Instant::ZERO));
            again.is_err_and(|said| said.to_string().contains("already"))
        });
        world.session.pause_hosts(&both).expect("pausing");
        let said = waiting
            .join()
            .expect("no panic")
            .expect_err("it was paused")
            .to_string();
        assert!(said.contains("was paused before"), "{said}");
    });
}

/// Runs tests of this file as another user, so that hosts are stopped by SIGSTOP.
#[test]
fn without_root_hosts_are_stopped_by_signal() {
    need_root();
    let scratch = Scratch::new("host-nobody");
    let own = std::env::current_exe().expect("our own path");
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg("--inh-caps=-all")
        .arg(scratch.copy(&own))
        .args(["--exact", "--test-threads=1"])
        .args(BY_SIGNAL.map(|test| format!("host_control::{test}")))
        .env("XDG_RUNTIME_DIR", scratch.path(""))
        .current_dir(scratch.path(""))
        .output()
        .expect("running the tests");
    let said = String::from_utf8_lossy(&output.stdout);
    let all_passed = format!("{} passed", BY_SIGNAL.len());
    assert!(
        output.status.success() && said.contains(&all_passed),
        "{said}"
    );
}

/// Tests that need no compiled test programs.
const BY_SIGNAL: [&str; 5] = [
    "a_program_of_a_paused_host_is_born_standing",
    "a_step_of_a_host_ends_at_exactly_its_instant",
    "frames_to_a_paused_host_wait_for_it",
    "pauses_of_host_and_session_nest",
    "time_skips_past_a_paused_host_and_with_a_dilated_one",
];
