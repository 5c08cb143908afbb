//! The generator xoshiro256++ and the distributions of models.

use crate::SplitMix64;

/// The generator xoshiro256++ (Blackman and Vigna, 2021), seeded through SplitMix64 as its authors
/// recommend.
///
/// Each part of a model has its own stream, so that adding a part does not change the random
/// numbers of the others.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Returns the generator of stream `stream` in the run with seed `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mix = SplitMix64(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        Self {
            state: [(); 4].map(|()| mix.bits()),
        }
    }

    /// Returns an independent generator for one part of a model, so that an additional draw in this
    /// part does not change the values of others.
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits(), 0)
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let out = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        out
    }

    /// Returns a number in `0..bound`; 0 if `bound` is 0. The bias of the distribution is below
    /// bound / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an integer in `low..high`; `low` if the range is empty. The bias of the
    /// distribution is below (high - low) / 2^64.
    #[inline]
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self
            .below(high.saturating_sub(low).max(1).cast_unsigned())
            .cast_signed()
    }

    /// Returns a number in `0.0..1.0`, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with the given probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a sample of the exponential distribution with the given mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Returns an approximately standard normal value, within ± 6 (the sum of twelve uniform
    /// values).
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn the_reference_sequence() {
        // Expected values, from the authors' C code with state 1, 2, 3, 4.
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        let got = [random.bits(), random.bits(), random.bits()];
        assert_eq!(got, [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn means_are_near() {
        let mut random = Random::new(7, 0);
        let n = 100_000;
        let unit: f64 = (0..n).map(|_| random.unit()).sum();
        let exponential: f64 = (0..n).map(|_| random.exponential(3.0)).sum();
        assert!((unit / f64::from(n) - 0.5).abs() < 0.005);
        assert!((exponential / f64::from(n) - 3.0).abs() < 0.05);
    }

    #[test]
    fn a_seed_stands_for_one_sequence_of_the_right_shape() {
        let (mut a, mut b) = (Random::new(7, 0), Random::new(7, 0));
        assert!((0..100).all(|_| a.bits() == b.bits()));
        let draws: Vec<f64> = (0..10_000).map(|_| a.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 1e4;
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / 1e4;
        assert!(
            mean.abs() < 0.05 && (variance - 1.0).abs() < 0.05,
            "{mean} {variance}"
        );
        assert!((0..1000).all(|_| (3..9).contains(&a.between(3, 9))));
    }
}
