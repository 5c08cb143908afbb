//! Medians and percentiles, which are robust against outliers on a noisy machine.

/// Returns the median of `samples`. For an even number of samples, it is the mean of the two in the
/// middle.
///
/// # Panics
/// Panics if there are no samples.
pub fn median(samples: &[f64]) -> f64 {
    percentile(samples, 50.0)
}

/// Returns the value below which `percent` per cent of `samples` are, linearly interpolated between
/// neighbouring samples (type 7 of Hyndman and Fan, as in NumPy and R).
///
/// # Panics
/// Panics if there are no samples.
pub fn percentile(samples: &[f64], percent: f64) -> f64 {
    assert!(!samples.is_empty(), "a percentile of nothing");
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = percent.clamp(0.0, 100.0) / 100.0 * (sorted.len() - 1) as f64;
    let below = place as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Returns the 95 % confidence interval of the median, for samples of any distribution (order
/// statistics; normal approximation of the binomial distribution). For few samples, it is their
/// minimum and maximum.
///
/// # Panics
/// Panics if there are no samples.
pub(crate) fn median_interval(samples: &[f64]) -> (f64, f64) {
    assert!(!samples.is_empty(), "an interval of nothing");
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let half = 1.96 * count.sqrt() / 2.0;
    // Ranks count from 1.
    let low = (count / 2.0 - half).floor().max(1.0) as usize;
    let high = (1.0 + count / 2.0 + half).ceil().min(count) as usize;
    (sorted[low - 1], sorted[high - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_in_any_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn percentiles_interpolate() {
        let samples: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&samples, 5.0), 5.0);
        assert_eq!(percentile(&samples, 95.0), 95.0);
        assert_eq!(percentile(&[1.0, 2.0], 25.0), 1.25);
        assert_eq!(percentile(&[1.0, 2.0], 0.0), 1.0);
        assert_eq!(percentile(&[1.0, 2.0], 100.0), 2.0);
    }

    #[test]
    fn an_outlier_does_not_move_the_median() {
        assert_eq!(median(&[1.0, 1.0, 1.0, 1.0, 1e9]), 1.0);
    }

    /// Expected ranks 40 and 61 of a hundred are from Conover, Practical Nonparametric Statistics,
    /// 3.2.
    #[test]
    fn the_interval_of_a_median_has_the_ranks_of_the_textbook() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(median_interval(&samples), (40.0, 61.0));
        assert_eq!(median_interval(&[3.0, 1.0, 2.0]), (1.0, 3.0));
    }
}
