//! Tests events that end a wait before its time. In a session they end the wait at once and with
//! the native result, even if the clock was paused meanwhile.

use std::time::Duration;

use crate::support::{Differential, World, c_program, c_program_static};

#[test]
fn data_wake_ups_and_posts_end_a_wait_at_once() {
    let world = World::new("early", 1.0);
    let programs = [c_program("early"), c_program_static("early")];
    Differential::of(programs, 200).run(&world, |world| {
        world.run_for(Duration::from_millis(100));
        world.pause_for(world.long());
    });
}
