//! Source of random numbers, which callers pass as an argument.

use timeloom_random::SplitMix64;

/// Source of random bits. Nonces require unpredictable ones: programs pass the kernel's generator,
/// simulations a seeded one.
pub trait RandomSource {
    /// Returns the next 64 random bits.
    fn next_u64(&mut self) -> u64;
}

/// Reproducible and predictable, for simulations only.
impl RandomSource for SplitMix64 {
    fn next_u64(&mut self) -> u64 {
        self.bits()
    }
}
