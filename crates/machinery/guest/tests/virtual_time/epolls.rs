//! Tests that events wake the same waiting threads as natively, and that waits return EINTR as
//! natively.

use std::time::Duration;

use crate::support::{Differential, World, c_program, c_program_static};

/// One byte for five waiting threads wakes one of them, if they requested exclusive wake-ups. (An
/// event at the moment when all of them begin to wait again would wake all.)
#[test]
fn one_event_wakes_as_many_as_natively() {
    for dilation in [1.0, 5.0] {
        let world = World::new("epolls", dilation);
        let programs = [c_program("epolls"), c_program_static("epolls")];
        Differential::of(programs, 600).run(&world, |world| {
            world.run_for(Duration::from_millis(200));
            world.pause_for(world.long());
        });
    }
}

/// Signals come one by one while the threads wait. Each signal is reported to the program, and no
/// pause is.
#[test]
fn a_handler_is_told_of_and_a_pause_is_not() {
    let world = World::new("epolls-storm", 1.0);
    let runs = Differential {
        cases: vec!["signalled", "signalled_timed", "signalled_masked", "edge"],
        ..Differential::of([c_program("epolls")], 1_500)
    };
    runs.run(&world, |world| {
        for turn in 0..500 {
            world.pause_for(Duration::from_millis(1 + turn % 5));
            world.run_for(Duration::from_micros(2_000));
        }
    });
}
