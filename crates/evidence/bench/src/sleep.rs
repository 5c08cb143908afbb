//! Lateness of sleeps: natively, in a session, and with libfaketime.
//!
//! A sleep ends late by the timer slack and the scheduling latency. In a session, the trap and the
//! reading of the clock are added.

use crate::clock_read::start_faked;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::remote::{Environment, Remote, session};
use crate::rounds::Rounds;
use crate::scratch::Scratch;
use crate::stats::{median, percentile};
use crate::ticks::Scale;
use crate::{Name, Options};

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let scale = Scale::calibrate();
    let scratch = Scratch::new()?;
    let session = session(options)?;
    let mut native = Remote::start(options, &scratch, &Environment::Native)?;
    let mut inside = Remote::start(options, &scratch, &Environment::Inside(&session))?;
    let mut faked = start_faked(options, &scratch)?;
    let mut workers = vec![&mut native, &mut inside];
    workers.extend(&mut faked);
    for (name, ns, rounds) in SLEEPS {
        let rounds = Rounds::run(
            if options.quick { rounds / 8 } else { rounds },
            &format!("sleep {ns} {SLEEPS_PER_ROUND}"),
            &mut workers,
            scale,
        )?;
        let late = |samples: &[f64]| -> Vec<f64> {
            samples
                .iter()
                .map(|lasted| lasted - f64::from(ns))
                .collect()
        };
        let (native, inside) = (late(rounds.base_ns()), late(rounds.other_ns(0)));
        let mut one = Figure::new(
            Name::Exec,
            format!("sleep_{name}_added_ns"),
            "ns",
            &rounds.differences_ns(0),
        )
        .with("late_outside_ns", median(&native))
        .with("late_inside_ns", median(&inside))
        .with("late_inside_p95_ns", percentile(&inside, 95.0))
        .with("late_outside_p95_ns", percentile(&native, 95.0));
        if workers.len() > 2 {
            one = one.with("late_libfaketime_ns", median(&late(rounds.other_ns(1))));
        }
        figure(one);
    }
    Ok(())
}

/// Suffix of the metric's name, length in ns, and number of rounds without `--quick`.
const SLEEPS: [(&str, u32, usize); 4] = [
    ("50us", 50_000, 201),
    ("100us", 100_000, 201),
    ("1ms", 1_000_000, 101),
    ("10ms", 10_000_000, 41),
];
/// Number of sleeps whose median a worker returns as one answer.
const SLEEPS_PER_ROUND: u32 = 5;
