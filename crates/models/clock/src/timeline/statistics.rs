//! Statistics of a timeline's offsets.

use std::collections::VecDeque;

use timeloom_time::Duration;

/// The most recent offsets that the servo measured.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    offsets_ns: VecDeque<f64>,
}

/// Statistical estimate of the accuracy. Unlike an interval, it is not a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistical {
    /// Number of offsets that the estimate is based on.
    pub samples: usize,
    /// Mean of the offsets.
    pub mean: Duration,
    /// Standard deviation of the offsets.
    pub deviation: Duration,
    /// Distance from the middle of the bounds within which the estimate lies with the given
    /// probability. **It does not include the asymmetry of the paths.**
    pub within: Duration,
}

impl Statistics {
    /// Adds an offset.
    pub fn add(&mut self, offset: Duration) {
        self.offsets_ns.push_back(offset.as_ns() as f64);
        if self.offsets_ns.len() > WINDOW {
            self.offsets_ns.pop_front();
        }
    }

    /// Removes all offsets.
    pub fn forget(&mut self) {
        self.offsets_ns.clear();
    }

    /// Returns the estimate for a probability, by the formula of the QoT Stack: `sqrt(2) erfinv(p)
    /// sqrt(upper bound of the variance)`. The upper bound follows from the lower quantile of the
    /// chi-square distribution. Returns `None` until half of the window is filled, and for a
    /// probability outside of (0, 1).
    pub fn within(&self, probability: f64) -> Option<Statistical> {
        let n = self.offsets_ns.len();
        if n < WINDOW / 2 || !(probability > 0.0 && probability < 1.0) {
            return None;
        }
        let mean = self.offsets_ns.iter().sum::<f64>() / n as f64;
        let squares: f64 = self.offsets_ns.iter().map(|x| (x - mean).powi(2)).sum();
        let freedom = (n - 1) as f64;
        let variance_up = squares / chi_square_quantile(1.0 - probability, freedom);
        let z = normal_quantile(0.5 + probability / 2.0);
        let ns = |x: f64| Duration::from_ns_f64(x.ceil());
        Some(Statistical {
            samples: n,
            mean: ns(mean),
            deviation: ns((squares / freedom).sqrt()),
            within: ns(mean.abs() + z * variance_up.sqrt()),
        })
    }
}

/// Number of offsets kept: the window of the QoT Stack, rounded to a power of two.
const WINDOW: usize = 64;

/// Returns the chi-square quantile by the cube-root approximation. The error is below 1 % for 30
/// degrees of freedom and more.
fn chi_square_quantile(p: f64, freedom: f64) -> f64 {
    let ninth = 2.0 / (9.0 * freedom);
    let root = 1.0 - ninth + normal_quantile(p) * ninth.sqrt();
    freedom * root.max(0.05).powi(3)
}

/// Returns the quantile of the standard normal distribution, by bisection of [`normal_tail`]. This
/// is fast enough for a few calls per second.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        let below = if middle < 0.0 {
            normal_tail(-middle)
        } else {
            1.0 - normal_tail(middle)
        };
        if below < p {
            low = middle
        } else {
            high = middle
        }
    }
    (low + high) / 2.0
}

/// Returns P(X > x) of a standard normal variable for x ≥ 0 (Handbook of Mathematical Functions,
/// 7.1.26). The absolute error is below 10^-7.
fn normal_tail(x: f64) -> f64 {
    let z = x / core::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let poly = t
        * (0.254829592
            + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    0.5 * poly * (-z * z).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_random::Random;

    #[test]
    fn six_nines_of_a_known_noise() {
        let (mut statistics, mut noise) = (Statistics::default(), Random::new(1, 0));
        assert_eq!(
            statistics.within(0.999_999),
            None,
            "a fresh view knows nothing"
        );
        for _ in 0..64 {
            statistics.add(Duration::from_ns((noise.normal() * 1000.0) as i64));
        }
        let view = statistics.within(0.99).unwrap();
        assert!((700..1300).contains(&view.deviation.as_ns()), "{view:?}");
        assert!((2400..5200).contains(&view.within.as_ns()), "{view:?}");
        assert!(statistics.within(0.999_999).unwrap().within > view.within);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        assert!((normal_quantile(0.975) - 1.95996).abs() < 1e-4);
        assert!((chi_square_quantile(0.05, 63.0) - 45.741).abs() < 0.1);
    }
}
