//! Whatever a program starts lives by the same clock, and is started as
//! natively: exec, vfork, posix_spawn, scripts, threads, and execs that fail.

use std::time::Duration;

use crate::support::{Differential, World, c_program, c_program_static};

#[test]
fn process_trees_are_as_natively_and_share_the_clock() {
    let world = World::new("processes", 1.0);
    let programs = [c_program("processes"), c_program_static("processes")];
    Differential::of(programs, 400).run(&world, |world| {
        world.run_for(Duration::from_millis(200));
        world.pause_for(world.long());
    });
    assert_eq!(
        world
            .warnings
            .lock()
            .expect("no panic while held")
            .as_slice(),
        [""; 0]
    );
}

/// Execs that are stopped in their middle, over and over.
#[test]
fn process_trees_survive_pauses_at_any_instant() {
    let world = World::new("processes-hammered", 1.0);
    let programs = [c_program("processes"), c_program_static("processes")];
    Differential::of(programs, 400).run(&world, |world| {
        for turn in 0..150 {
            world.pause_for(Duration::from_micros(200 * (turn % 10)));
            world.run_for(Duration::from_micros(300 * (turn % 7)));
        }
    });
}
