//! The same scenario with the same seed gives the same results.

use timeloom_results::{Sample, deviation};

use crate::support::{Finished, Lab, Scenario};

fn walk(run: &Finished) -> Vec<(i64, f64)> {
    let series = run
        .directory()
        .series(&["world.walk"])
        .expect("it can be read");
    series[0]
        .samples
        .iter()
        .map(|(t, value)| (t.as_ns(), *value))
        .collect()
}

/// What depends on the seed alone agrees to the last bit, however often and
/// whenever the plant was asked meanwhile.
#[test]
fn chance_comes_from_the_seed_alone() {
    let run = |period: &str, sets: &[&str]| {
        let lab = Lab::new(
            &Scenario::lasting("500 ms")
                .program(
                    'a',
                    "client",
                    &["python3", "poll.py", "10.0.0.10", period],
                    "",
                )
                .plant("{}"),
        );
        let samples = walk(&lab.run(sets).succeeded());
        assert_eq!(samples.len(), 11);
        samples
    };
    let first = run("0.02", &[]);
    assert_eq!(first, run("0.05", &[]));
    assert_ne!(first, run("0.02", &["seed=8"]));
}

/// A program that controls the plant over the network does so a little sooner
/// or later each time, as in the real world. It takes the level from about 0.6
/// to 2, at first by 3.5 a second; the two runs must agree to a tenth of a unit
/// at every instant, which is 30 ms, and to a hundredth in the end.
#[test]
fn a_controlled_plant_goes_the_same_way_twice() {
    let level = || {
        let poll = ["python3", "poll.py", "10.0.0.10", "0.02", "2.0", "1.0"];
        let lab = Lab::new(
            &Scenario::lasting("3 s")
                .program('a', "client", &poll, "")
                .plant("{}"),
        );
        let run = lab.run(&[]).succeeded();
        let mut series = run
            .directory()
            .series(&["world.level"])
            .expect("it can be read");
        series.remove(0).samples
    };
    let (one, two) = (level(), level());
    assert_eq!(one.len(), 61);
    let last = |series: &[Sample]| series.last().expect("it was recorded").1;
    assert!(
        (1.95..2.05).contains(&last(&one)),
        "it was not controlled: {one:?}"
    );
    let apart = deviation(&one, &two).expect("they cover the same time");
    assert!(apart.max_abs < 0.1, "{apart:?}");
    assert!(
        (last(&one) - last(&two)).abs() < 0.01,
        "{} and {}",
        last(&one),
        last(&two)
    );
}
