//! Tests of timeouts of sockets, and of times of packets.

use std::time::Duration;

use crate::support::{Differential, World, c_program, c_program_static};

fn programs() -> [std::path::PathBuf; 4] {
    [
        c_program("sockets"),
        c_program_static("sockets"),
        c_program("stamps"),
        c_program_static("stamps"),
    ]
}

/// A wait by a socket's timeout does not count a pause. A packet that was queued during the pause
/// keeps its time of arrival.
#[test]
fn timeouts_and_stamps_exclude_a_pause() {
    for dilation in [1.0, 5.0] {
        let world = World::new("sockets", dilation);
        Differential::of(programs(), 500).run(&world, |world| {
            world.run_for(Duration::from_millis(250));
            world.pause_for(world.long());
        });
        let warnings = world.warnings.lock().expect("no panic while held");
        assert_eq!(warnings.as_slice(), [""; 0]);
    }
}

#[test]
fn timeouts_and_stamps_follow_a_change_of_rate() {
    for (first, second) in [(5.0, 0.5), (0.5, 5.0)] {
        let world = World::new("sockets-rate", first);
        Differential::of(programs(), 600).run(&world, |world| {
            world.run_for(Duration::from_millis(300));
            world.session.dilate(second).expect("a possible factor");
        });
    }
}

/// If the virtual clock shows another date, timestamps of packets have that date.
#[test]
fn stamps_are_of_the_date_that_the_clock_shows() {
    let clock = timeloom_guest::ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_520_000_000_000_000)), // 2019-06-03
        ..Default::default()
    };
    let world = World::with_clock("stamps-date", clock);
    Differential::of([c_program("stamps")], 100).run(&world, |world| {
        for _ in 0..60 {
            world.pause_for(Duration::from_micros(300));
            world.run_for(Duration::from_millis(1));
        }
    });
}
