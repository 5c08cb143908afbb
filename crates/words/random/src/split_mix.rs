//! The generator SplitMix64.

/// SplitMix64 (Steele, Lea and Flood, 2014), a small generator with 64 bits of state. It suits
/// short sequences and the seeding of other generators.
#[derive(Clone, Debug)]
pub struct SplitMix64(
    /// State of the generator; every value is a good seed.
    pub u64,
);

impl SplitMix64 {
    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        // Expected values, from the C code of Sebastiano Vigna with state 1234567.
        let mut random = SplitMix64(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([(); 3].map(|()| random.bits()), expected);
    }
}
