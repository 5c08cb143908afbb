//! Policies of a slave on time that is not entirely vouched for.

use timeloom_wire::TimeInterval;

/// Consequence of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Only time for which every hop vouches disciplines the clock.
    Strict,
    /// Failures are reported, and the clock follows nevertheless.
    Monitor,
    /// Strict, except that transparent clocks that do not sign may add this much in total; the
    /// grandmaster must allow it by a flag that it signs.
    Mixed {
        /// Limit of the sum.
        budget: TimeInterval,
    },
}

/// Limits that an honest path does not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Transparent clocks in a path.
    pub max_hops: u8,
    /// Largest contribution of one hop.
    pub max_contribution: TimeInterval,
    /// Smallest contribution of one hop; negative, because a link may be shorter than its
    /// measurement error.
    pub min_contribution: TimeInterval,
    /// Verifications per second of Follow_Ups whose number is not due; beyond it they are dropped
    /// unchecked and the flood is reported.
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
