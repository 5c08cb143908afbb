//! Containment: for every read of a timeline, true time lies in the interval, or the status says
//! that there is no interval.

use timeloom_clock::quality::{Requirement, Status};
use timeloom_clock::world::{ClockWorld, SourceFault, WorldCounts, WorldPlan};
use timeloom_random::Random;
use timeloom_time::Duration;

/// Runs `worlds` random worlds with `reads` reads each, with seeds from `first_seed` on.
fn prove(first_seed: u64, worlds: u64, reads: u64) -> WorldCounts {
    let mut total = WorldCounts::default();
    for seed in first_seed..first_seed + worlds {
        let mut world = ClockWorld::random(seed);
        world
            .run(reads)
            .unwrap_or_else(|violation| panic!("{violation}"));
        total.add(world.tally());
    }
    assert_eq!(total.reads(), worlds * reads);
    // The test must not be vacuous: every status and every fault must have occurred, and most reads
    // must have had an interval.
    assert!(total.by_status.iter().all(|count| *count > 0), "{total:?}");
    assert!(total.faults.iter().all(|count| *count > 0), "{total:?}");
    assert!(total.with_interval > total.reads() / 2, "{total:?}");
    assert!(total.narrow > total.with_interval / 2, "{total:?}");
    total
}

#[test]
fn true_time_is_in_every_interval_of_fifty_thousand_reads() {
    prove(1, 100, 500);
}

#[test]
#[ignore = "a million reads; run with --release -- --ignored --nocapture"]
fn true_time_is_in_every_interval_of_a_million_reads() {
    let seed = std::env::var("TIMELOOM_SEED").map_or(1_000, |text| text.parse().unwrap());
    let total = prove(seed, 500, 2_000);
    println!(
        "{} of {} intervals are narrow; {total:?}",
        total.narrow, total.with_interval
    );
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let run = || {
        let mut world = ClockWorld::random(42);
        world.run(500).unwrap();
        format!(
            "{:?} {:?}",
            world.tally(),
            world.estimator().map(|estimator| *estimator.segment())
        )
    };
    assert_eq!(run(), run());
}

#[test]
fn an_oscillator_that_breaks_its_promise_is_caught_by_the_proof() {
    let broken = (0..20).any(|seed| {
        let mut plan = WorldPlan::quiet(&mut Random::new(seed, 0));
        plan.config.poll.shortest = Duration::from_s(60);
        let mut world = ClockWorld::new(plan, seed);
        world.machine_mut().break_promise(50);
        world.run(2_000).is_err()
    });
    assert!(broken, "a proof that cannot fail proves nothing");
}

#[test]
fn more_liars_than_tolerated_are_caught_by_the_proof() {
    let mut plan = WorldPlan::quiet(&mut Random::new(1, 0));
    plan.sources[0].lie = SourceFault::Constant(Duration::from_ms(50));
    plan.sources[1].lie = SourceFault::Constant(Duration::from_ms(50));
    assert!(ClockWorld::new(plan, 1).run(2_000).is_err());
}

#[test]
fn bounds_are_tight_in_a_quiet_world_and_needs_drive_the_effort() {
    let run = |requirements: Vec<Requirement>| {
        let mut plan = WorldPlan::quiet(&mut Random::new(5, 0));
        plan.requirements = requirements;
        let mut world = ClockWorld::new(plan, 5);
        world
            .run(20_000)
            .unwrap_or_else(|violation| panic!("{violation}"));
        world
    };
    let accuracy = Duration::from_us(100);
    let (idle, bound) = (run(vec![]), run(vec![Requirement::within(accuracy)]));
    // Twenty thousand reads take about eleven minutes of true time.
    let (few, many) = (idle.tally().questions, bound.tally().questions);
    assert!(
        many > 2 * few,
        "{few} questions without a binding, {many} with one"
    );
    // The requirement is not met before the first answer, and always met afterwards.
    assert_eq!(bound.tally().violated, 1, "{:?}", bound.tally());
    assert_eq!(bound.tally().restored, 1, "{:?}", bound.tally());
    assert!(bound.tally().by_status[Status::Ok as usize] > 19_900);
    // The round trip is 100 µs and the sources state an error of 15 µs. No bound can be much
    // narrower; without a requirement the bound is much wider.
    let mean_ns =
        |world: &ClockWorld| world.tally().width_sum_ns / u128::from(world.tally().with_interval);
    assert!(
        (115_000..200_000).contains(&mean_ns(&bound)),
        "{} ns",
        mean_ns(&bound)
    );
    assert!(mean_ns(&idle) > mean_ns(&bound), "{} ns", mean_ns(&idle));
    // The estimate is much better than the bound. Its error is half of the path's asymmetry (10
    // µs), plus the errors of servo and sources.
    let error_ns = bound.tally().error_sum_ns / u128::from(bound.tally().with_interval);
    assert!((1_000..25_000).contains(&error_ns), "{error_ns} ns");
    println!(
        "mean width {} ns, mean error {error_ns} ns",
        mean_ns(&bound)
    );
}

#[test]
fn a_step_that_no_witness_sees_is_caught_by_the_proof() {
    let caught = (0..50).any(|seed| {
        let mut plan = WorldPlan::random(&mut Random::new(seed, 0));
        plan.has_witness = true;
        plan.config.watch.witness = Duration::MAX;
        ClockWorld::new(plan, seed).run(2_000).is_err()
    });
    assert!(caught, "the witness must matter");
}
