//! What a slave does about time that is not, or not wholly, answered for.

use timeloom_wire::TimeInterval;

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Only time that every hop answers for disciplines the clock.
    Strict,
    /// Failures are reported, and the clock follows all the same.
    Monitor,
    /// As strict, but transparent clocks that do not sign may add this much in
    /// all; the grandmaster must allow it by a flag that it signs.
    Mixed {
        /// Bound of the sum.
        budget: TimeInterval,
    },
}

/// What an honest path cannot exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Transparent clocks in a path.
    pub max_hops: u8,
    /// What one hop may add.
    pub max_contribution: TimeInterval,
    /// What one hop may take away: noise of a link shorter than its error.
    pub min_contribution: TimeInterval,
    /// Verifications per second of Follow_Ups whose number is not due; above it
    /// they are dropped unseen and the flood is reported.
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
