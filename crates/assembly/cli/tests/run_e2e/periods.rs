//! Runs that stop at the end of each period, while their plants compute.

use timeloom_results::ClockAction;

use crate::support::{Finished, Lab, POLL, Scenario, samples};

/// Period of the runs, in nanoseconds. It is no multiple of any other interval in them.
const PERIOD_NS: i64 = 70_000_000;
const DURATION_NS: i64 = 2_500_000_000;

/// Returns the virtual instants at which the run stopped for the end of a period.
fn stops(run: &Finished) -> Vec<i64> {
    let rows = run.directory().clock().expect("readable");
    let of_periods = rows
        .iter()
        .filter(|row| row.action == ClockAction::Pause && &*row.requester == "period");
    of_periods.map(|row| row.t_virtual.as_ns()).collect()
}

/// In every mode in which time can be stopped, the stops are exactly the multiples of the period,
/// from the start on. Exchanges with the plant in between are not disturbed.
#[test]
fn a_run_stops_at_the_multiples_of_its_period() {
    let wanted: Vec<i64> = (0..)
        .map(|count| count * PERIOD_NS)
        .take_while(|at| *at < DURATION_NS)
        .collect();
    for mode in [
        &["time.mode=virtual"][..],
        &["time.mode=skip"],
        &["time.mode=skip", "time.compute=none"],
    ] {
        let lab = Lab::new(
            &Scenario::lasting("2500 ms")
                .program('a', "client", POLL, "")
                .plant("{ slow_ms = 5 }"),
        );
        let run = lab.run(&[&["time.period=70 ms"], mode].concat());
        let run = run.succeeded();
        assert_eq!(stops(&run), wanted, "{mode:?}");
        let polled = samples(run.path(), "client");
        assert!(polled.len() > 3, "{mode:?}: {}", polled.len());
        for sample in &polled {
            assert!(sample.before <= sample.plant && sample.plant <= sample.after);
        }
    }
}

/// A user's run to an instant stops there, between two ends of periods, and the periods go on.
#[test]
fn a_run_in_periods_can_be_stepped() {
    let lab = Lab::new(&Scenario::lasting("60 s").program('a', "client", POLL, ""));
    let mut run = lab.start(&["time.period=70 ms"]);
    run.wait_until(0.3);
    let paused = run.control("pause").expect("it is paused");
    let mut at = paused["virtual_ns"].as_i64().expect("a number");
    for step_ms in [1, 70, 200] {
        run.control(&format!("step {step_ms}ms")).expect("a step");
        at += step_ms * 1_000_000;
        let status = run.control("query").expect("a status");
        assert_eq!(status["virtual_ns"].as_i64(), Some(at), "{status}");
    }
    run.control("resume").expect("it goes on");
    run.wait_until(at as f64 * 1e-9 + 0.5);
    run.signal(libc::SIGINT);
    let run = run.wait();
    let stops = stops(&run);
    let wanted: Vec<i64> = (0..).map(|it| it * PERIOD_NS).take(stops.len()).collect();
    assert_eq!(stops, wanted);
    assert!(stops.last().is_some_and(|last| *last > at), "{stops:?}");
}
