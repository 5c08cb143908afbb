//! Tests that a wait of 500 ms that is paused for a second in its middle lasts 500 ms of virtual
//! time and returns its native result.

use std::time::Duration;

use crate::support::languages::{Programs, scripts};
use crate::support::{Differential, World, c_program, c_program_static};

const WAIT_MS: u32 = 500;

fn paused_in_the_middle(theme: &str, dilation: f64, runs: &Differential) {
    let world = World::new(theme, dilation);
    runs.run(&world, |world| {
        world.run_for(Duration::from_millis(u64::from(WAIT_MS) / 2));
        world.pause_for(world.long());
    });
    // By the machine's clock, the duration is the virtual wait, scaled, plus the pause.
    let wall = runs.released.get().expect("it ran").elapsed().as_secs_f64();
    let least = f64::from(WAIT_MS) / 1000.0 * dilation + 1.0;
    assert!(
        wall >= least * 0.999,
        "took {wall} s of wall time, less than {least} s"
    );
}

fn c_waits(theme: &str, dilation: f64) {
    let programs = ["waits", "libc_waits", "queues", "posix_timers"];
    let dynamic = programs.map(c_program);
    let fixed = programs.map(c_program_static);
    paused_in_the_middle(
        theme,
        dilation,
        &Differential::of(dynamic.into_iter().chain(fixed), WAIT_MS),
    );
}

#[test]
fn c_waits_exclude_a_pause() {
    c_waits("waits", 1.0);
}

#[test]
fn c_waits_exclude_a_pause_at_a_fifth_of_the_speed() {
    c_waits("waits-slow", 5.0);
}

#[test]
fn c_waits_exclude_a_pause_at_twice_the_speed() {
    c_waits("waits-fast", 0.5);
}

pub(crate) fn language_waits(theme: &str, dilation: f64, programs: Programs) {
    let runs = Differential {
        programs,
        ..Differential::of([], WAIT_MS)
    };
    paused_in_the_middle(theme, dilation, &runs);
}

#[test]
fn waits_of_scripts_exclude_a_pause() {
    language_waits("scripts", 1.0, scripts());
}

#[test]
fn waits_of_scripts_exclude_a_pause_at_a_fifth_of_the_speed() {
    language_waits("scripts-slow", 5.0, scripts());
}

#[test]
fn waits_of_scripts_exclude_a_pause_at_twice_the_speed() {
    language_waits("scripts-fast", 0.5, scripts());
}
