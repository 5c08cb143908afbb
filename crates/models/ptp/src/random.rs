//! Source of random numbers, which callers pass as an argument.

/// Source of random bits. Nonces require unpredictable ones: programs pass the kernel's generator,
/// simulations a seeded one.
pub trait Random {
    /// Returns the next 64 random bits.
    fn next_u64(&mut self) -> u64;
}

/// SplitMix64, a small generator that is seeded, reproducible and predictable; for simulations
/// only.
#[derive(Clone, Debug)]
pub struct SplitMix(
    /// State of the generator; every value is a good seed.
    pub u64,
);

impl Random for SplitMix {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
