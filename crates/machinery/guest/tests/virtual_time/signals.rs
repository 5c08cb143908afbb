//! Tests of a program's own signals: EINTR exactly as natively, jumps out of waits, masks, signal
//! stacks, cancellation. In all of them a pause precedes the signal, which the program must not
//! notice.

use std::time::Duration;

use timeloom_test_support::need;

use crate::support::{Differential, World, c_program, c_program_static, c_program_unwinding};

fn as_natively(program: &'static str) {
    let world = World::new(program, 1.0);
    let programs = [
        c_program(program),
        c_program_static(program),
        c_program_unwinding(program),
    ];
    Differential::of(programs, 200).run(&world, |world| {
        world.run_for(Duration::from_millis(100));
        world.pause_for(world.long());
    });
}

#[test]
fn a_handler_interrupts_a_wait_as_natively() {
    as_natively("signals");
}

#[test]
fn blocked_signals_and_own_sigsys_handlers_do_no_harm() {
    as_natively("masks");
}

#[test]
fn a_thread_cancelled_in_a_wait_runs_its_cleanup_handlers() {
    as_natively("cancel");
}

/// The program is an emulator whose handlers leave all signals blocked in their frames until the
/// emulator itself has handled the signal.
#[test]
fn a_program_in_an_emulator_is_interrupted() {
    let emulator = format!("qemu-{}", std::env::consts::ARCH);
    need(&emulator, "qemu-user");
    let clock = timeloom_guest::ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_563_200_000_000_000)), // 2019-06-03
        ..Default::default()
    };
    let world = World::with_clock("emulator", clock);
    let argv = [emulator.into(), c_program_static("busy").into_os_string()];
    let expected = (vec!["handled=1 year=2019".to_owned()], 0);
    assert_eq!(world.start(argv).finish(), expected);
}

/// The supervisor interrupts a blocked thread by a signal, so that it recomputes its timeout. The
/// EINTR of another signal that arrives at the same time must not be lost.
#[test]
fn no_interruption_is_lost_while_the_rate_changes() {
    let world = World::new("storm", 1.0);
    Differential::of([c_program("storm")], 1_500).run(&world, |world| {
        for turn in 0..400 {
            world
                .session
                .dilate([2.0, 0.5, 1.0][turn % 3])
                .expect("a possible factor");
            std::thread::sleep(Duration::from_micros(500));
        }
        world.session.dilate(1.0).expect("a possible factor");
    });
}
