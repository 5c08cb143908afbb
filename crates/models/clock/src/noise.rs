//! Seeded randomness for models.

/// Pseudo-random generator (xoshiro256++ seeded by splitmix64). One printed seed reproduces a
/// failing world. It is not suitable for secrets.
#[derive(Clone, Debug)]
pub struct Noise {
    state: [u64; 4],
}

impl Noise {
    /// Returns the generator with the given seed.
    pub fn new(seed: u64) -> Self {
        let mut z = seed;
        let state = std::array::from_fn(|_| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        });
        Self { state }
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns an integer in `low..high`; `low` if the range is empty. The bias is below 2^-40 for
    /// every range that this crate uses.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = high.saturating_sub(low).max(1) as u64;
        low + ((u128::from(self.bits()) * u128::from(width)) >> 64) as i64
    }

    /// Returns a value uniformly distributed in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns an approximately standard normal value, within ± 6 (the sum of twelve uniform
    /// values).
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Returns an independent generator for one part of a model, so that an additional draw in this
    /// part does not change the values of others.
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_stands_for_one_sequence_of_the_right_shape() {
        let (mut a, mut b) = (Noise::new(7), Noise::new(7));
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
