//! Simulated time source.

use timeloom_time::{Duration, Instant};

use super::Path;
use crate::TimelineTime;
use timeloom_random::Random;

/// Simulated source: a path, and a clock whose error is within the stated bounds unless it lies.
#[derive(Clone, Debug)]
pub struct SimulatedSource {
    /// Path to the source.
    pub path: Path,
    /// True if the source's answers are authenticated.
    pub authenticated: bool,
    /// Kind of error beyond the stated bounds.
    pub lie: SourceFault,
    /// Round-trip delay to the source's own reference, as stated.
    pub root_delay: Duration,
    /// Error in addition to half of that delay, as stated.
    pub root_dispersion: Duration,
    /// Present error, within the stated bounds.
    error: Duration,
    /// End of the stated range at which the error stays: +1 or −1; 0 if the error varies.
    pinned: i64,
    noise: Random,
}

/// Kind of error of a source beyond its stated bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SourceFault {
    /// No error beyond the stated bounds.
    Honest,
    /// A constant error.
    Constant(Duration),
    /// An error that grows slowly, so that no answer contradicts the previous one; the rate is in
    /// parts per million of true time.
    Creeping(i64),
    /// A different random error in each answer, up to this length.
    Erratic(Duration),
}

impl SimulatedSource {
    /// Returns a source without a lie, with small stated errors.
    pub fn honest(path: Path, mut noise: Random) -> Self {
        let root_delay = Duration::from_ns(noise.between(0, 2_000_000));
        let root_dispersion = Duration::from_ns(noise.between(0, 500_000));
        Self {
            path,
            authenticated: true,
            lie: SourceFault::Honest,
            root_delay,
            root_dispersion,
            error: Duration::ZERO,
            pinned: noise.between(-1, 2),
            noise,
        }
    }

    /// Returns the reading of the source's clock at a true instant, in whole nanoseconds.
    pub fn show(&mut self, true_ns: i64) -> Instant<TimelineTime> {
        // The error walks slowly over the whole stated range, including its ends.
        let most = Duration::from_ns(self.root_delay.as_ns() / 2) + self.root_dispersion;
        let step = Duration::from_ns(self.noise.between(-10_000, 10_001));
        self.error = match self.pinned {
            0 => (self.error + step).clamp(-most, most),
            side => Duration::from_ns(side * most.as_ns()),
        };
        let lie = match self.lie {
            SourceFault::Honest => Duration::ZERO,
            SourceFault::Constant(offset) => offset,
            SourceFault::Creeping(ppm) => {
                Duration::from_ns((true_ns / 1_000_000).saturating_mul(ppm))
            }
            SourceFault::Erratic(most) => {
                Duration::from_ns(self.noise.between(-most.as_ns(), most.as_ns()))
            }
        };
        Instant::from_ns(true_ns) + self.error + lie
    }
}
