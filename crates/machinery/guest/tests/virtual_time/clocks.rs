//! Tests the clocks that programs read while they are paused and dilated.

use std::time::Duration;

use crate::support::{Differential, World, c_program, c_program_static};

/// No clock goes back, not even between threads; system calls agree with the vDSO; the differences
/// between the clocks are constant.
#[test]
fn clocks_stay_consistent_under_pauses_and_changes_of_rate() {
    let world = World::new("clocks", 1.0);
    let programs = [c_program("clocks"), c_program_static("clocks")];
    let factors = [5.0, 0.5, 1.0, 0.125, 20.0];
    Differential::of(programs, 2_000).run(&world, |world| {
        let target = world.session.clock().now() + timeloom_time::Duration::from_ms(1_500);
        for turn in 0.. {
            if world.session.clock().now() >= target {
                break;
            }
            world.pause_for(Duration::from_micros(700 * (turn % 3)));
            std::thread::sleep(Duration::from_micros(1_500));
            world
                .session
                .dilate(factors[turn as usize % factors.len()])
                .expect("a possible factor");
        }
        world.session.dilate(1.0).expect("a possible factor");
    });
}

/// CLOCK_TAI is ahead of CLOCK_REALTIME by the offset that was valid at the requested start date.
/// Without such a date, it is ahead by the offset that the machine's programs see.
#[test]
fn tai_is_ahead_as_at_the_start_or_as_on_the_machine() {
    const ASK: &str = "import time
apart = lambda: round(time.clock_gettime(11) - time.clock_gettime(time.CLOCK_REALTIME))
print(apart())";
    let utc = |s: i64| timeloom_time::Instant::from_ns(s * 1_000_000_000);
    let machine = timeloom_sys::clock::civil_state().expect("it answers");
    for (start, expected) in [
        (Some(utc(1_559_520_000)), 37), // 2019-06-03
        (Some(utc(946_684_800)), 32),   // 2000-01-01
        (Some(utc(31_536_000)), 0),     // 1971
        (None, machine.tai_offset_s),
    ] {
        let clock = timeloom_guest::ClockOptions {
            start,
            ..Default::default()
        };
        let world = World::with_clock("tai", clock);
        let (lines, status) = world.start(["python3", "-c", ASK]).finish();
        assert_eq!(
            (lines, status),
            (vec![expected.to_string()], 0),
            "{start:?}"
        );
    }
}

/// CLOCK_REALTIME shows the requested start; CLOCK_MONOTONIC continues that of the machine.
#[test]
fn a_session_can_start_at_any_date() {
    let clock = timeloom_guest::ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_520_000_000_000_000)), // 2019-06-03
        ..Default::default()
    };
    let world = World::with_clock("date", clock);
    let (lines, status) = world.start(["date", "-u", "+%F"]).finish();
    assert_eq!((lines, status), (vec!["2019-06-03".to_owned()], 0));
}
