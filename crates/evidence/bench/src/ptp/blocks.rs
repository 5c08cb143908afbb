//! Samples of variants that were measured in turn, and their comparison.

use crate::BenchError;
use crate::stats::{median, percentile};

/// Number of consecutive Syncs in a block, whose medians are compared. Standard deviations are
/// compared per run, because for a few dozen samples they are mostly noise.
pub(super) const BLOCK: usize = 32;

/// Returns the standard deviation of a normal distribution, estimated robustly against outliers.
pub(super) fn deviation(samples: &[f64]) -> f64 {
    (percentile(samples, 84.13) - percentile(samples, 15.87)) / 2.0
}

/// Samples of each variant. The n-th samples of all variants were taken together.
pub(super) struct Blocks {
    pub(super) all: Vec<Vec<f64>>,
    /// Number of samples at the end of each run.
    ends: Vec<usize>,
}

impl Blocks {
    pub(super) fn new(variants: usize) -> Self {
        Self {
            all: vec![Vec::new(); variants],
            ends: Vec::new(),
        }
    }

    /// Adds the whole blocks of one run.
    pub(super) fn add(&mut self, run: Vec<Vec<f64>>) {
        let shortest = run.iter().map(Vec::len).min().unwrap_or(0);
        // The first Syncs are left out, because caches are cold.
        let whole = shortest.saturating_sub(BLOCK / 4) / BLOCK * BLOCK;
        for (samples, run) in self.all.iter_mut().zip(run) {
            samples.extend_from_slice(&run[run.len() - whole..]);
        }
        if whole > 0 {
            self.ends.push(self.all[0].len());
        }
    }

    pub(super) fn ready(&self) -> Result<&Self, BenchError> {
        if self.all[0].len() < 3 * BLOCK {
            let text = "too few Syncs went through to compare anything".to_owned();
            return Err(BenchError::Worker(text));
        }
        Ok(self)
    }

    pub(super) fn compared(
        &self,
        variant: usize,
        compare: impl Fn(&[f64], &[f64]) -> f64,
    ) -> Vec<f64> {
        let pairs = self.all[variant]
            .chunks(BLOCK)
            .zip(self.all[0].chunks(BLOCK));
        pairs
            .map(|(signed, plain)| compare(signed, plain))
            .collect()
    }

    /// Returns the median of `variant` divided by that of the unsigned variant, block by block.
    pub(super) fn ratios(&self, variant: usize) -> Vec<f64> {
        self.compared(variant, |signed, plain| median(signed) / median(plain))
    }

    /// Returns the deviation of `variant` divided by that of the unsigned variant, run by run.
    pub(super) fn deviations(&self, variant: usize) -> Vec<f64> {
        let starts = [0].iter().chain(&self.ends);
        let runs = starts.zip(&self.ends).map(|(start, end)| *start..*end);
        let of = |variant: usize, run| deviation(&self.all[variant][run]);
        runs.map(|run| of(variant, run.clone()) / of(0, run))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_sigma_and_does_not_see_rare_outliers() {
        // Samples with sigma 3 from an approximately normal distribution: sums of twelve uniform
        // numbers.
        let mut state = 1u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        let mut samples: Vec<f64> = (0..20_000)
            .map(|_| 3.0 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0))
            .collect();
        assert!(
            (deviation(&samples) - 3.0).abs() < 0.1,
            "{}",
            deviation(&samples)
        );
        samples[..20].fill(4e6);
        assert!((deviation(&samples) - 3.0).abs() < 0.1);
    }

    #[test]
    fn blocks_compare_neighbours_of_the_same_run_only() {
        let mut blocks = Blocks::new(2);
        // Two runs, in the second of which the machine was twice as slow. Like real runs, they
        // differ in length.
        blocks.add(vec![vec![10.0; 3 * BLOCK + 20], vec![15.0; 2 * BLOCK + 9]]);
        blocks.add(vec![vec![20.0; 2 * BLOCK + 9], vec![30.0; 4 * BLOCK]]);
        assert_eq!(blocks.all[0].len(), 4 * BLOCK);
        assert_eq!(blocks.ratios(1), [1.5; 4]);
        assert!(blocks.ready().is_ok());
        assert!(Blocks::new(2).ready().is_err());
        assert_eq!(blocks.ends, [2 * BLOCK, 4 * BLOCK]);
    }
}
