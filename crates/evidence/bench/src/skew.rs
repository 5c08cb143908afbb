//! `pause`, second part: accumulation of clock errors by pauses.
//!
//! By the paper's equation, virtual time is (wall − paused) / dilation. After each of 1000 pauses
//! the clock is compared with that value. The metric is the median error of the last 100 pauses
//! divided by that of the first 100. If a clock gained or lost a little with every pause (for
//! example because it measures each pause separately), the ratio would grow with the number of
//! pauses. A clock that continues without loss shows only its constant error of calibration, and a
//! ratio of about 1.

use std::time::Duration;

use timeloom_guest::Clock;

use crate::error::BenchError;
use crate::figure::Figure;
use crate::remote::session;
use crate::stats::median;
use crate::{Name, Options};

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let session = session(options)?;
    // The clock's initial calibration over 5 ms is replaced by longer and longer ones. The wait
    // excludes that effect, which is unrelated to pauses.
    std::thread::sleep(Duration::from_millis(options.pick(1500, 4000)));
    let mut errors_ns = Vec::with_capacity(PAUSES);
    for _ in 0..PAUSES {
        session.pause()?;
        std::thread::sleep(Duration::from_micros(100));
        session.resume()?;
        std::thread::sleep(Duration::from_micros(options.pick(400, 4000)));
        errors_ns.push(error_ns(session.clock()));
    }
    let first = median_size(&errors_ns[..SPAN]);
    // The ratio is a single value, not one per round. Its spread is that of the last errors, each
    // divided by the median of the first ones.
    let ratios: Vec<f64> = errors_ns[PAUSES - SPAN..]
        .iter()
        .map(|error| error.abs().max(RESOLUTION_NS) / first)
        .collect();
    figure(
        Figure::new(Name::Pause, "skew_last_over_first_1000", "ratio", &ratios)
            .with(
                "definition",
                "median |virtual - (wall - paused) / dilation| after the last 100 of 1000 pauses, over that after the first 100; errors below the resolution count as the resolution",
            )
            .with("first_error_ns", median(&errors_ns[..SPAN]))
            .with("last_error_ns", median(&errors_ns[PAUSES - SPAN..]))
            .with("resolution_ns", RESOLUTION_NS),
    );
    Ok(())
}

/// Returns virtual time minus the value of the equation, in ns. Of several attempts, that one
/// counts in which the two wall readings around the virtual reading were closest together.
fn error_ns(clock: &Clock) -> f64 {
    (0..16)
        .map(|_| {
            let before = clock.wall();
            let shown = clock.now();
            let after = clock.wall();
            let width = (after - before).as_ns();
            let running_ns = (before - clock.started()).as_ns() as f64 + width as f64 / 2.0
                - clock.paused_total().as_ns() as f64;
            (width, shown.as_ns() as f64 - running_ns / clock.dilation())
        })
        .min_by_key(|(width, _)| *width)
        .expect("sixteen attempts")
        .1
}

fn median_size(errors_ns: &[f64]) -> f64 {
    let sizes: Vec<f64> = errors_ns
        .iter()
        .map(|error| error.abs().max(RESOLUTION_NS))
        .collect();
    median(&sizes)
}

const PAUSES: usize = 1000;
/// Number of first pauses, and of last pauses, that are compared.
const SPAN: usize = 100;
/// About half of the time between two readings of the wall clock. Smaller errors cannot be
/// distinguished from zero.
const RESOLUTION_NS: f64 = 20.0;
