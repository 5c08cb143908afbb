//! Tests of running programs that are attached: from then on their clocks show the session's time,
//! their waits follow it, and their threads continue.

use std::time::Duration;

use crate::support::command_line::eventually;
use crate::support::{Program, World};

const SCRIPT: &str = "import threading, time, sys\n\
    def other():\n\
    \x20   while True: time.sleep(0.01)\n\
    threading.Thread(target=other, daemon=True).start()\n\
    while True:\n\
    \x20   begun = time.monotonic()\n\
    \x20   time.sleep(0.05)\n\
    \x20   long = time.monotonic() - begun\n\
    \x20   print(time.gmtime().tm_year, 'early' if long < 0.05 else 'ok' if long < 0.5 else 'late', flush=True)\n";

#[test]
fn a_running_program_is_brought_in() {
    let clock = timeloom_guest::ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_563_200_000_000_000)), // 2019-06-03
        ..Default::default()
    };
    let world = World::with_clock("register", clock);
    let mut program = Program::native(&["python3", "-c", SCRIPT].map(Into::into));
    program.wait_for_line(|line| line.ends_with("ok") && !line.starts_with("2019"));
    let pid = program.native_pid();
    world.session.register(pid).expect("a program of ours");
    // The wait that is in progress at that moment may measure the change of the clocks.
    program.wait_for_line(|line| line.starts_with("2019"));
    // If pauses were counted, no wait would last the right time. On a busy machine, some waits do
    // not.
    let mut in_time = 0;
    eventually("three waits in time", || {
        program.next_line();
        world.pause_for(Duration::from_millis(700));
        let line = program.next_line();
        assert_ne!(line, "2019 early");
        in_time += u32::from(line == "2019 ok");
        in_time == 3
    });
    assert!(world.pids().contains(&pid));
    let again = world.session.register(pid);
    assert!(again.is_err(), "it is in a session already");
    world.session.kill_all();
}

/// The program's earlier settings for its own SIGSYS still hold: the signal is blocked, and
/// handled when it is unblocked; the next one is ignored, as requested.
#[test]
fn a_program_keeps_its_settings_for_its_own_sigsys() {
    let script = "import signal, sys, time\n\
        def caught(number, frame): print('caught', number, flush=True)\n\
        signal.signal(signal.SIGSYS, caught)\n\
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGSYS])\n\
        print('ready', flush=True)\n\
        while time.gmtime().tm_year != 2019: time.sleep(0.01)\n\
        signal.raise_signal(signal.SIGSYS)\n\
        old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGSYS])\n\
        print('blocked', signal.SIGSYS in old, signal.SIGSYS in signal.sigpending(), flush=True)\n\
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGSYS])\n\
        old = signal.signal(signal.SIGSYS, signal.SIG_IGN)\n\
        signal.raise_signal(signal.SIGSYS)\n\
        print('end', old == caught, flush=True)\n";
    let clock = timeloom_guest::ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_563_200_000_000_000)), // 2019-06-03
        ..Default::default()
    };
    let world = World::with_clock("register-sigsys", clock);
    let mut program = Program::native(&["python3", "-c", script].map(Into::into));
    program.wait_for("ready");
    let pid = program.native_pid();
    world.session.register(pid).expect("a program of ours");
    let (said, status) = program.finish();
    let expected = ["ready", "blocked True True", "caught 31", "end True"];
    assert_eq!(
        (said.as_slice(), status),
        (&expected.map(String::from)[..], 0)
    );
}
