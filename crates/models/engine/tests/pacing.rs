//! Engine at the pace of a clock: no event is handled before its instant, and late events are
//! counted.

mod common;

use std::cell::Cell;

use common::dice;
use timeloom_engine::queue::Wheel;
use timeloom_engine::{Limit, Pace, Paced, Wake};
use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual, Wall};

fn wall(ms: i64) -> Instant<Wall> {
    Instant::ZERO + Duration::from_ms(ms)
}

fn virt(ms: i64) -> Instant<Virtual> {
    Instant::ZERO + Duration::from_ms(ms)
}

#[test]
fn a_pause_leaves_everything_where_it_is() {
    let reference = {
        let mut engine = dice::<Wheel>(3, 10);
        engine.run_until(virt(40), u64::MAX);
        engine.model.trace
    };
    let pace = Pace::real(wall(0), Instant::ZERO);
    let mut paced = Paced::new(dice::<Wheel>(3, 10), pace, Limit::default());
    paced.poll(|| wall(10), u64::MAX);
    paced.set_rate(wall(10), Rate::STOPPED);
    let before = paced.engine.handled();
    assert_eq!(paced.poll(|| wall(900), u64::MAX), Wake::OnChange);
    assert_eq!(paced.engine.handled(), before);
    // From this instant the clock is dilated by ten: 300 ms of wall time are 30 ms of virtual time.
    paced.set_rate(wall(900), Rate::from_ratio(1, 10).unwrap());
    paced.poll(|| wall(1_200), u64::MAX);
    assert!(paced.engine.now() <= virt(40));
    paced.set_pace(Pace::Granted(virt(40)));
    paced.poll(|| wall(1_200), u64::MAX);
    assert!(paced.engine.model.trace == reference);
}

#[test]
fn steps_are_granted_from_outside() {
    let mut paced = Paced::new(
        dice::<Wheel>(3, 10),
        Pace::Granted(virt(1)),
        Limit::default(),
    );
    assert_eq!(paced.poll(|| wall(0), u64::MAX), Wake::OnChange);
    let next = paced.engine.next_wake().unwrap();
    assert!(next > virt(1) && paced.engine.now() <= virt(1));
    paced.set_pace(Pace::Granted(next));
    paced.poll(|| wall(0), u64::MAX);
    assert_eq!(paced.engine.now(), next);
}

/// Holds however late the caller polls, and however far the clock's map has advanced.
#[test]
fn nothing_is_handled_beyond_where_the_clock_stops() {
    let real = ClockMap::new(wall(0), Instant::ZERO, Rate::ONE);
    let mut paced = Paced::new(dice::<Wheel>(3, 10), Pace::Free, Limit::default());
    let stop = virt(20);
    paced.follow(real, stop);
    assert_eq!(paced.poll(|| wall(900), u64::MAX), Wake::OnChange);
    assert_eq!(paced.limit(wall(900)), stop);
    let next = paced.engine.next_wake().unwrap();
    assert!(next > stop && paced.engine.now() <= stop);
    let mut stopped = dice::<Wheel>(3, 10);
    stopped.run_until(stop, u64::MAX);
    assert!(paced.engine.model.trace == stopped.model.trace);
    // The clock continues from the instant at which it stopped.
    paced.follow(real.continued(wall(900), Rate::ONE), Instant::FAR_FUTURE);
    paced.poll(|| wall(900), u64::MAX);
    assert!(paced.engine.now() > stop);
}

#[test]
fn a_slow_machine_is_found_out() {
    // Every reading of the clock advances it by 50 µs. A speed of 32 events per 50 µs is too slow
    // for this model's first instants, at which all its events start together.
    let now = Cell::new(0);
    let clock = || {
        now.set(now.get() + 50_000);
        Instant::from_ns(now.get())
    };
    let pace = Pace::real(Instant::ZERO, Instant::ZERO);
    let limit = Limit {
        late_after: Duration::from_us(100),
        late_ppm: 500,
        worst: Duration::from_ms(100),
    };
    let mut paced = Paced::new(dice::<Wheel>(3, 5_000), pace, limit);
    let wake = paced.poll(clock, 20_000);
    assert_eq!(wake, Wake::Now, "the budget ended before the work did");
    let lateness = paced.lateness();
    assert_eq!(lateness.events(), 20_000);
    assert!(lateness.late() > 10_000 && lateness.worst() > Duration::from_ms(1));
    assert!(lateness.is_untrusted());
}

#[test]
fn an_idle_machine_is_trusted() {
    let now = Cell::new(0);
    let clock = || {
        now.set(now.get() + 100);
        Instant::from_ns(now.get())
    };
    let pace = Pace::real(Instant::ZERO, Instant::ZERO);
    let mut paced = Paced::new(dice::<Wheel>(3, 5), pace, Limit::default());
    for _ in 0..2_000 {
        if let Wake::At(at) = paced.poll(clock, u64::MAX) {
            assert!(at.as_ns() > now.get(), "it would be early");
            now.set(at.as_ns());
        }
    }
    assert!(paced.lateness().events() > 2_000);
    assert!(paced.lateness().worst() < Duration::from_us(10));
    assert!(!paced.lateness().is_untrusted());
}

#[test]
fn running_ahead_stops_at_output_and_at_the_limit() {
    let reference = {
        let mut engine = dice::<Wheel>(3, 10);
        engine.run_until(virt(40), u64::MAX);
        engine.model.trace
    };
    let stands = Pace::Clock(ClockMap::new(wall(0), Instant::ZERO, Rate::STOPPED));
    let mut paced = Paced::new(dice::<Wheel>(3, 10), stands, Limit::default());
    // The fifth line of the trace counts as output. The clock stays at zero during the whole test.
    let at = paced.run_ahead(virt(40), u64::MAX, |dice| dice.trace.lines().count() >= 5);
    assert_eq!(paced.engine.handled(), 5);
    let lines = paced.engine.model.trace.clone();
    let fifth = lines.lines().last().expect("five lines");
    assert!(fifth.starts_with(&format!("{} ", at.as_ns())), "{fifth}");
    // A used-up budget ends the run too; after that, the limit ends it, even without an event
    // there.
    assert_eq!(paced.run_ahead(virt(40), 3, |_| false), paced.engine.now());
    assert_eq!(paced.engine.handled(), 8);
    assert_eq!(paced.run_ahead(virt(40), u64::MAX, |_| false), virt(40));
    assert!(paced.engine.model.trace == reference);
    assert_eq!(paced.lateness().worst(), Duration::ZERO);
    assert_eq!(paced.lateness().events(), paced.engine.handled());
}
