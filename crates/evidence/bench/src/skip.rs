//! `skip`: rate of events in time that skips, beside threads that sleep.
//!
//! One thread sleeps for a virtual millisecond again and again; each of its deadlines is an event.
//! The other threads sleep for years. Computing takes no virtual time, so the rate is limited only
//! by the cost of an event: detection that all threads wait, one move of the clock, one wake-up.

use std::time::Duration;

use timeloom_guest::{ClockOptions, Compute};

use crate::error::BenchError;
use crate::figure::{Better, Figure};
use crate::remote::{Environment, Remote, session_with};
use crate::scratch::Scratch;
use crate::ticks::{self, Scale};
use crate::{Name, Options};

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let scale = Scale::calibrate();
    let mut rates = vec![Vec::new(); SLEEPING.len()];
    for _ in 0..options.pick(5, 21) {
        for (sleeping, rates) in SLEEPING.into_iter().zip(&mut rates) {
            rates.push(rate(options, sleeping, scale)?);
        }
    }
    for (sleeping, rates) in SLEEPING.into_iter().zip(&rates) {
        let mut one = Figure::new(Name::Skip, format!("events_{sleeping}"), "1/s", rates);
        one.better = Better::Higher;
        one.bar = (sleeping == WITH_BAR).then_some(LEAST_RATE);
        figure(one.with("sleeping_threads", sleeping));
    }
    let base = &rates[0];
    for (sleeping, rates) in SLEEPING.into_iter().zip(&rates).skip(1) {
        let ratios: Vec<f64> = rates
            .iter()
            .zip(base)
            .map(|(rate, base)| rate / base)
            .collect();
        let metric = format!("events_{sleeping}_over_{}", SLEEPING[0]);
        let mut one = Figure::new(Name::Skip, metric, "ratio", &ratios).bar(FLAT);
        one.better = Better::Higher;
        figure(one);
    }
    Ok(())
}

/// Returns the events per wall second in a new session with this number of sleeping threads.
fn rate(options: &Options, sleeping: usize, scale: Scale) -> Result<f64, BenchError> {
    let scratch = Scratch::new()?;
    let clock = ClockOptions {
        compute: Compute::None,
        ..ClockOptions::default()
    };
    let session = session_with(options, clock)?;
    let mut worker = Remote::start(options, &scratch, &Environment::Inside(&session))?;
    worker.ask(&format!("doze {sleeping}"))?;
    session.skip_while_waiting(|| true);
    let mut count = || -> Result<(f64, u64), BenchError> {
        let events = worker.measure("events")?;
        Ok((events, ticks::now()))
    };
    // The first events read the state of all threads once.
    let begun = std::time::Instant::now();
    while count()?.0 < FIRST_EVENTS {
        if begun.elapsed() > PATIENCE {
            return Err(BenchError::Worker(format!(
                "time does not skip beside {sleeping} sleeping threads"
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (before, began) = count()?;
    std::thread::sleep(Duration::from_millis(options.pick(200, 500)));
    let (after, ended) = count()?;
    Ok((after - before) / (scale.between_ns(began, ended) / 1e9))
}

/// Numbers of sleeping threads. The first is the base of the ratios.
const SLEEPING: [usize; 5] = [10, 50, 100, 1_000, 5_000];
/// Number of sleeping threads for which the rate has a bar.
const WITH_BAR: usize = 50;
/// Required events per second.
const LEAST_RATE: f64 = 20_000.0;
/// Least ratio of a rate to that beside ten sleeping threads.
const FLAT: f64 = 0.8;
/// Number of events that precede the measurement.
const FIRST_EVENTS: f64 = 100.0;
/// Wall time within which they happen.
const PATIENCE: Duration = Duration::from_secs(30);
