//! Pseudo-random numbers: the same seed gives the same numbers on every machine.
//!
//! Results of runs depend on these sequences, so they never change. The generators are therefore
//! defined here and not by a library, which may change its default generator between versions.
//! Neither generator is suitable for secrets.
#![forbid(unsafe_code)]
// Conversions state their result. Tests count in small numbers.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

mod split_mix;
mod xoshiro;

pub use split_mix::SplitMix64;
pub use xoshiro::Random;
