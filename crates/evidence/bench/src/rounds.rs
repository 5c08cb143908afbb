//! Interleaved rounds: A B A B … A.

use crate::error::BenchError;
use crate::remote::Remote;
use crate::ticks::{self, Scale};

/// A function that reads a clock a given number of times.
pub(crate) type Clock<'a> = Box<dyn FnMut(u32) + 'a>;

/// Cost of one clock compared with another, a value per round.
#[derive(Clone, Default)]
pub(crate) struct Paired {
    /// The clock, ns per read.
    pub(crate) ns: Vec<f64>,
    /// Mean of the base before and after it, ns per read.
    pub(crate) base_ns: Vec<f64>,
    /// Ratio of both.
    pub(crate) ratios: Vec<f64>,
}

/// Measurements of several workers in turn, in nanoseconds. The first one is the base of
/// comparison.
pub(crate) struct Rounds {
    /// Values of the base, one more than there are rounds: the last closes the last round.
    base_ns: Vec<f64>,
    others_ns: Vec<Vec<f64>>,
}

impl Rounds {
    /// Sends `command` to each worker in turn, `count` times over, and once more to the first.
    pub(crate) fn run(
        count: usize,
        command: &str,
        workers: &mut [&mut Remote],
        scale: Scale,
    ) -> Result<Self, BenchError> {
        let (base, others) = workers.split_first_mut().expect("at least one worker");
        // The first answers have cold caches and are discarded.
        base.measure(command)?;
        for other in others.iter_mut() {
            other.measure(command)?;
        }
        let mut rounds = Self {
            base_ns: Vec::new(),
            others_ns: vec![Vec::new(); others.len()],
        };
        for _ in 0..count {
            rounds.base_ns.push(scale.ns(base.measure(command)?));
            for (other, samples) in others.iter_mut().zip(&mut rounds.others_ns) {
                samples.push(scale.ns(other.measure(command)?));
            }
        }
        rounds.base_ns.push(scale.ns(base.measure(command)?));
        Ok(rounds)
    }

    /// Measures clocks that this process reads itself, `batch` reads at a time. The base is read
    /// before and after *each* of the others, so that neighbours are as close as possible.
    pub(crate) fn local(
        count: usize,
        batch: u32,
        base: &mut Clock<'_>,
        others: &mut [Clock<'_>],
        scale: Scale,
    ) -> Vec<Paired> {
        let time = |clock: &mut Clock<'_>| {
            let begun = ticks::now();
            clock(batch);
            scale.between_ns(begun, ticks::now()) / f64::from(batch)
        };
        time(base);
        others.iter_mut().for_each(|other| {
            time(other);
        });
        let mut paired = vec![Paired::default(); others.len()];
        let mut before_ns = time(base);
        for _ in 0..count {
            for (other, paired) in others.iter_mut().zip(&mut paired) {
                let other_ns = time(other);
                let after_ns = time(base);
                let base_ns = (before_ns + after_ns) / 2.0;
                paired.ns.push(other_ns);
                paired.base_ns.push(base_ns);
                paired.ratios.push(other_ns / base_ns);
                before_ns = after_ns;
            }
        }
        paired
    }

    /// Returns the first worker's values, ns.
    pub(crate) fn base_ns(&self) -> &[f64] {
        &self.base_ns
    }

    /// Returns another worker's values, ns. The first of the others has index 0.
    pub(crate) fn other_ns(&self, other: usize) -> &[f64] {
        &self.others_ns[other]
    }

    /// Returns another worker's value over the mean of the two base values around it.
    pub(crate) fn ratios(&self, other: usize) -> Vec<f64> {
        self.compared(other, |value, base| value / base)
    }

    /// Returns another worker's value minus the mean of the two base values around it.
    pub(crate) fn differences_ns(&self, other: usize) -> Vec<f64> {
        self.compared(other, |value, base| value - base)
    }

    fn compared(&self, other: usize, compare: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let around = self
            .base_ns
            .windows(2)
            .map(|pair| (pair[0] + pair[1]) / 2.0);
        self.others_ns[other]
            .iter()
            .zip(around)
            .map(|(value, base)| compare(*value, base))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_drift_cancels_out_between_neighbours() {
        // The machine slows down steadily; B costs half as much again.
        let cost = |turn: u32| 100.0 + f64::from(turn);
        let rounds = Rounds {
            base_ns: (0..=5).map(|round| cost(2 * round)).collect(),
            others_ns: vec![(0..5).map(|round| 1.5 * cost(2 * round + 1)).collect()],
        };
        assert!(
            rounds
                .ratios(0)
                .iter()
                .all(|ratio| (ratio - 1.5).abs() < 1e-12)
        );
        assert_eq!(rounds.differences_ns(0).len(), 5);
    }
}
