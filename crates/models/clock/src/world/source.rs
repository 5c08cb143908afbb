//! Simulated time source.

use timeloom_time::{Duration, Instant};

use super::Path;
use crate::Timeline;
use crate::noise::Noise;

/// Source in the model: a path and a clock whose error is within its stated bounds, unless it lies.
#[derive(Clone, Debug)]
pub struct SimulatedSource {
    /// Path to the source.
    pub path: Path,
    /// True if its answers are authenticated.
    pub authenticated: bool,
    /// Kind of lie.
    pub lie: Lie,
    /// Stated delay to its own reference.
    pub root_delay: Duration,
    /// Stated error beyond that.
    pub root_dispersion: Duration,
    /// Current error, within the two.
    error: Duration,
    /// End of the stated range at which the error stays: +1 or −1, or 0 if it varies.
    pinned: i64,
    noise: Noise,
}

/// Kind of a source's lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    /// No lie.
    Honest,
    /// The source is always off by this.
    Constant(Duration),
    /// The error grows slowly, so that no answer contradicts the one before: parts per million of
    /// true time.
    Creeping(i64),
    /// Each answer has a different error, up to this.
    Erratic(Duration),
}

impl SimulatedSource {
    /// Returns an honest source with a small error.
    pub fn honest(path: Path, mut noise: Noise) -> Self {
        let root_delay = Duration::from_ns(noise.between(0, 2_000_000));
        let root_dispersion = Duration::from_ns(noise.between(0, 500_000));
        Self {
            path,
            authenticated: true,
            lie: Lie::Honest,
            root_delay,
            root_dispersion,
            error: Duration::ZERO,
            pinned: noise.between(-1, 2),
            noise,
        }
    }

    /// Returns the source's reading at a true instant, in whole nanoseconds.
    pub fn show(&mut self, true_ns: i64) -> Instant<Timeline> {
        // A slow walk over the whole stated range, ends included.
        let most = Duration::from_ns(self.root_delay.as_ns() / 2) + self.root_dispersion;
        let step = Duration::from_ns(self.noise.between(-10_000, 10_001));
        self.error = match self.pinned {
            0 => (self.error + step).clamp(-most, most),
            side => Duration::from_ns(side * most.as_ns()),
        };
        let lie = match self.lie {
            Lie::Honest => Duration::ZERO,
            Lie::Constant(offset) => offset,
            Lie::Creeping(ppm) => Duration::from_ns((true_ns / 1_000_000).saturating_mul(ppm)),
            Lie::Erratic(most) => {
                Duration::from_ns(self.noise.between(-most.as_ns(), most.as_ns()))
            }
        };
        Instant::from_ns(true_ns) + self.error + lie
    }
}
