//! Interleaved rounds of measurements: A B A B … A.

use crate::error::BenchError;
use crate::remote::Remote;
use crate::ticks::{self, Scale};

/// Function that reads a clock as often as its argument says.
pub(crate) type Clock<'a> = Box<dyn FnMut(u32) + 'a>;

/// Cost of one clock compared with that of a base clock, with one value per round.
#[derive(Clone, Default)]
pub(crate) struct Paired {
    /// Cost of the clock in ns per read.
    pub(crate) ns: Vec<f64>,
    /// Mean cost of the base immediately before and after, in ns per read.
    pub(crate) base_ns: Vec<f64>,
    /// Cost of the clock divided by that of the base.
    pub(crate) ratios: Vec<f64>,
}

/// Measurements of several workers that took turns, in nanoseconds. The first worker is the base of
/// the comparison.
pub(crate) struct Rounds {
    /// Values of the base: one more than the number of rounds, since the last one ends the last
    /// round.
    base_ns: Vec<f64>,
    others_ns: Vec<Vec<f64>>,
}

impl Rounds {
    /// Sends `command` to each worker in turn, `count` times, and finally once more to the first.
    pub(crate) fn run(
        count: usize,
        command: &str,
        workers: &mut [&mut Remote],
        scale: Scale,
    ) -> Result<Self, BenchError> {
        let (base, others) = workers.split_first_mut().expect("at least one worker");
        // The first answers are discarded, because caches are cold.
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

    /// Measures clocks that this process itself reads, `batch` reads at a time. The base is read
    /// before and after *each* of the others, so that compared measurements are as close as
    /// possible.
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

    /// Returns the values of the base, in ns.
    pub(crate) fn base_ns(&self) -> &[f64] {
        &self.base_ns
    }

    /// Returns the values of another worker in ns; index 0 is the first after the base.
    pub(crate) fn other_ns(&self, other: usize) -> &[f64] {
        &self.others_ns[other]
    }

    /// Returns the values of another worker, each divided by the mean of the two base values around
    /// it.
    pub(crate) fn ratios(&self, other: usize) -> Vec<f64> {
        self.compared(other, |value, base| value / base)
    }

    /// Returns the values of another worker, each minus the mean of the two base values around it.
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
        // The machine becomes steadily slower, and B costs 1.5 times as much as A.
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
