//! Measurements that use the same code in a guest and natively.

use std::hint::black_box;

use serde::{Deserialize, Serialize};
use timeloom_timeline::Timeline;

use super::mailbox::Mailbox;
use crate::rounds::{Clock, Rounds};
use crate::ticks::{self, Scale};
use crate::timeline::clock_ns;

/// Cost of a clock compared with CLOCK_MONOTONIC of the same machine, with one value per round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    pub(super) clock: String,
    /// Nanoseconds per read, by the reader's own counter.
    pub(super) ns: Vec<f64>,
    /// Cost divided by that of CLOCK_MONOTONIC immediately before and after.
    pub(super) ratios: Vec<f64>,
}

/// Clocks of the paper's Table I, except CLOCK_MONOTONIC, the reference.
pub(super) const CLOCKS: [&str; 3] = ["tsc", "realtime", "timeline"];

/// Measures the cost of reading each clock. The clocks take turns, so that a neighbour affects all
/// alike.
pub(super) fn costs(timeline: &Timeline, rounds: usize, batch: u32) -> Vec<Cost> {
    let scale = Scale::calibrate();
    let mut monotonic = clock(libc::CLOCK_MONOTONIC);
    let mut clocks: [Clock<'_>; 3] = [
        Box::new(|batch| {
            for _ in 0..batch {
                black_box(ticks::now());
            }
        }),
        clock(libc::CLOCK_REALTIME),
        Box::new(|batch| {
            for _ in 0..batch {
                let _ = black_box(timeline.read_ns());
            }
        }),
    ];
    let paired = Rounds::local(rounds, batch, &mut monotonic, &mut clocks, scale);
    let named = CLOCKS.into_iter().zip(paired);
    let mut costs: Vec<Cost> = named
        .map(|(name, paired)| Cost {
            clock: name.to_owned(),
            ns: paired.ns,
            ratios: paired.ratios,
        })
        .collect();
    let beside = Rounds::local(
        rounds,
        batch,
        &mut clock(libc::CLOCK_MONOTONIC),
        &mut [clock(libc::CLOCK_MONOTONIC)],
        scale,
    );
    costs.extend(beside.into_iter().map(|paired| Cost {
        clock: "monotonic".to_owned(),
        ns: paired.ns,
        ratios: paired.ratios,
    }));
    costs
}

/// A reading of the timeline between two readings of true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) true_before_ns: i64,
    pub(super) true_after_ns: i64,
    /// Earliest, estimated and latest time in ns; `None` if the timeline had no interval.
    pub(super) reading_ns: Option<[i64; 3]>,
}

impl Sample {
    pub(super) fn take(timeline: &Timeline, mailbox: &Mailbox) -> Self {
        let true_before_ns = mailbox.ask();
        let reading = timeline.read_ns();
        let true_after_ns = mailbox.ask();
        let reading = reading.ok().filter(|reading| reading.bounded);
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        Self {
            true_before_ns,
            true_after_ns,
            reading_ns: reading.map(|reading| {
                let estimate_ns = reading.estimate_ns;
                [
                    estimate_ns.saturating_sub(signed(reading.below_ns)),
                    estimate_ns,
                    estimate_ns.saturating_add(signed(reading.above_ns)),
                ]
            }),
        }
    }

    /// Returns true if true time was certainly outside of the interval.
    pub(super) fn is_wrong(&self) -> bool {
        self.reading_ns.is_some_and(|[earliest, _, latest]| {
            earliest > self.true_after_ns || latest < self.true_before_ns
        })
    }

    /// Returns the uncertainty of true time: the time between its two readings, in ns.
    pub(super) fn truth_ns(&self) -> i64 {
        self.true_after_ns - self.true_before_ns
    }

    /// Returns the estimate minus the middle of the two readings of true time, in ns; `None`
    /// without an interval.
    pub(super) fn error_ns(&self) -> Option<f64> {
        let middle_ns = self.true_before_ns + self.truth_ns() / 2;
        let [_, estimate, _] = self.reading_ns?;
        Some((estimate - middle_ns) as f64)
    }

    pub(super) fn width_ns(&self) -> Option<f64> {
        self.reading_ns
            .map(|[earliest, _, latest]| (latest - earliest) as f64)
    }
}

fn clock<'a>(id: libc::clockid_t) -> Clock<'a> {
    Box::new(move |batch| {
        for _ in 0..batch {
            black_box(clock_ns(id));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_wrong_only_where_truth_is_outside_for_certain() {
        let sample = |reading_ns| Sample {
            true_before_ns: 1_000,
            true_after_ns: 1_100,
            reading_ns,
        };
        let good = sample(Some([900, 1_020, 1_000]));
        assert!(!good.is_wrong());
        assert_eq!((good.truth_ns(), good.error_ns()), (100, Some(-30.0)));
        assert!(!sample(Some([1_100, 1_150, 1_200])).is_wrong());
        assert!(sample(Some([1_101, 1_150, 1_200])).is_wrong());
        assert!(sample(Some([900, 950, 999])).is_wrong());
        let silent = sample(None);
        assert!(!silent.is_wrong() && silent.error_ns().is_none());
    }
}
