//! Tests that a change of the clock reaches threads that are already blocked.

use std::time::Duration;

use crate::support::{Differential, World, c_program, c_program_static};

fn changed_in_the_middle(theme: &str, first: f64, second: f64) {
    let world = World::new(theme, first);
    Differential::of(
        ["waits", "libc_waits", "queues", "posix_timers"].map(c_program),
        600,
    )
    .run(&world, |world| {
        world.run_for(Duration::from_millis(300));
        world.session.dilate(second).expect("a possible factor");
    });
}

/// If the rest of the wait still followed the slow clock, it would last ten times too long.
#[test]
fn blocked_waits_follow_a_clock_made_faster() {
    changed_in_the_middle("faster", 5.0, 0.5);
}

/// If the rest of the wait still followed the fast clock, it would end early.
#[test]
fn blocked_waits_follow_a_clock_made_slower() {
    changed_in_the_middle("slower", 0.5, 5.0);
}

/// A thread blocked in any other call is stopped in that call, and must not notice. (A call that
/// started its wait anew after each stop would be late by a second.)
#[test]
fn no_blocking_call_tells_that_it_was_stopped() {
    let world = World::new("blocked", 1.0);
    let programs = ["blocked", "sockets"].map(c_program);
    Differential::of(programs, 1_500).run(&world, |world| {
        for turn in 0..500 {
            world.pause_for(Duration::from_millis(1 + turn % 5));
            world.run_for(Duration::from_micros(2_000));
        }
        world.pause_for(world.long());
    });
}

#[test]
fn blocking_calls_exclude_a_pause_and_follow_a_change_of_rate() {
    for (first, second) in [(1.0, 1.0), (5.0, 0.5), (0.5, 5.0)] {
        let world = World::new("blocked-rate", first);
        let programs = [c_program("blocked"), c_program_static("blocked")];
        Differential::of(programs, 600).run(&world, |world| {
            world.run_for(Duration::from_millis(300));
            world.session.dilate(second).expect("a possible factor");
            world.pause_for(world.long());
        });
    }
}

#[test]
fn a_rate_changed_while_paused_holds_after_the_pause() {
    let world = World::new("paused-change", 5.0);
    Differential::of([c_program("waits")], 400).run(&world, |world| {
        world.run_for(Duration::from_millis(100));
        world.session.pause().expect("pausing");
        world.session.dilate(0.5).expect("a possible factor");
        assert!(
            world.session.clock().is_paused(),
            "a new rate is no resumption"
        );
        std::thread::sleep(Duration::from_millis(500));
        world.session.resume().expect("resuming");
    });
}

#[test]
fn a_thousand_short_pauses_do_not_shorten_or_stretch_a_wait() {
    let world = World::new("thousand", 1.0);
    let programs = ["waits", "libc_waits", "queues", "posix_timers"].map(c_program);
    Differential {
        // A wait of two seconds does not end before the last pause, so it could count all pauses.
        fault: Duration::from_secs(3),
        ..Differential::of(programs, 2_000)
    }
    .run(&world, |world| {
        for turn in 0..1_000 {
            world.pause_for(Duration::from_millis(1 + turn % 5));
            world.run_for(Duration::from_micros(1_500));
        }
    });
    assert!(world.session.clock().paused_total().as_ns() >= 3_000_000_000);
}
