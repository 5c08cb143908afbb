//! Policies of a slave for messages that not every hop has signed.

use timeloom_wire::TimeInterval;

/// Consequence of a failed verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationPolicy {
    /// The slave disciplines its clock only by Syncs that every hop has signed.
    Strict,
    /// The slave reports failures, and uses the Syncs nevertheless.
    Monitor,
    /// As [`Self::Strict`], but transparent clocks that do not sign may add up to `budget` in
    /// total. The grandmaster must permit this by a flag that it signs.
    Mixed {
        /// Greatest sum of unsigned contributions.
        budget: TimeInterval,
    },
}

/// Limits that correct clocks and paths do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Greatest number of transparent clocks in a path.
    pub max_hops: u8,
    /// Greatest contribution of one hop.
    pub max_contribution: TimeInterval,
    /// Smallest contribution of one hop. It is negative, because the measured delay of a short link
    /// can be less than zero.
    pub min_contribution: TimeInterval,
    /// Greatest number of verifications per second of Follow_Ups whose number is not due. More are
    /// dropped without a check, and the flood is reported.
    pub failures_per_s: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_hops: 16,
            max_contribution: TimeInterval::from_ns(1_000_000_000),
            min_contribution: TimeInterval::from_ns(-10_000),
            failures_per_s: 50,
        }
    }
}
