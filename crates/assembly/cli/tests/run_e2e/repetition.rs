//! A scenario that runs twice with the same seed must give equal results.

use timeloom_results::{Sample, deviation};

use crate::support::{Finished, Lab, Scenario, log_lines, samples};

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

/// Values that depend only on the seed must be equal to the last bit, however often and whenever
/// the plant was queried.
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

/// A program that controls the plant over the network acts a little earlier or later in each run,
/// as in the real world. It moves the level from about 0.6 towards 2, at first by 1.4 per second.
/// The two runs must agree to a tenth of a unit at every instant, which is the effect of a delay of
/// 70 ms. Time is dilated, because a busy machine delays a program by up to 0.2 s of its time.
#[test]
fn a_controlled_plant_goes_the_same_way_twice() {
    let (one, two) = (controlled_level(), controlled_level());
    assert_eq!(one.len(), 61);
    let last = one.last().expect("it was recorded").1;
    assert!((1.7..1.9).contains(&last), "it was not controlled: {one:?}");
    let apart = deviation(&one, &two).expect("they cover the same time");
    assert!(apart.max_abs < 0.1, "{apart:?}");
}

/// Returns the level under a client that takes control after one second. If a busy machine needs
/// longer than that to start Python, the run is repeated.
fn controlled_level() -> Vec<Sample> {
    let poll = ["python3", "poll.py", "10.0.0.10", "0.02", "2.0", "1.0"];
    for _ in 0..5 {
        let lab = Lab::new(
            &Scenario::lasting("3 s")
                .program('a', "client", &poll, "")
                .plant("{}"),
        );
        let run = lab.run(&["time.dilation=5"]).succeeded();
        let polled = samples(&lab.run_path(), "client");
        if polled
            .first()
            .is_some_and(|first| first.before < 1_030_000_000)
        {
            let series = run.directory().series(&["world.level"]);
            return series.expect("it can be read").remove(0).samples;
        }
    }
    panic!("Python does not start within a second of virtual time");
}

/// A client controls the plant over the network, with its own clock. If computing takes no time,
/// two runs must be equal to the last bit, whatever the machine's load. They must also be equal for
/// both methods of noticing that all threads wait: a report of the scheduler, and an examination of
/// every thread.
#[test]
fn runs_in_which_computing_takes_no_time_are_the_same() {
    let run = |by_events: bool| {
        let poll = ["python3", "poll.py", "10.0.0.10", "0.02", "2.0", "1.0"];
        let lab = Lab::new(
            &Scenario::lasting("3 s")
                .program('a', "client", &poll, "")
                .program('b', "ticks", &["python3", "ticks.py", "0.05"], "")
                .plant("{}"),
        );
        let sets = ["time.mode=skip", "time.compute=none"];
        let run = match by_events {
            true => lab.run(&sets),
            false => lab.run_without_bpf(&sets),
        };
        let run = run.succeeded();
        let mut signals = Vec::new();
        run.directory()
            .for_each(|row: timeloom_results::SignalRow| {
                let at_ns = row.t_virtual.as_ns();
                signals.push((at_ns, row.name.to_string(), row.value.to_bits()));
                Ok(())
            })
            .expect("the signals can be read");
        let printed = ["client", "ticks"].map(|name| log_lines(&lab.run_path(), name));
        (signals, printed)
    };
    let one = run(true);
    assert!(one.0.len() > 200, "{} samples", one.0.len());
    assert_eq!(one, run(true));
    assert_eq!(one, run(false));
}
