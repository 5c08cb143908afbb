//! Source of random numbers, which is always an argument.

/// Source of random bits. Nonces require an unpredictable one; programs pass the kernel's,
/// simulations a seeded one.
pub trait Random {
    /// Returns the next 64 bits.
    fn next_u64(&mut self) -> u64;
}

/// SplitMix64: small, seeded, reproducible and predictable. For simulations.
#[derive(Clone, Debug)]
pub struct SplitMix(
    /// State; any seed is good.
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
