//! A clock that is asked.

use timeloom_time::{Duration, Instant};

use super::Path;
use crate::Timeline;
use crate::noise::Noise;

/// A source in the model: a path and a clock whose error is within what it
/// states, unless it lies.
#[derive(Clone, Debug)]
pub struct SimulatedSource {
    /// The way to it.
    pub path: Path,
    /// Whether its answers prove where they come from.
    pub authenticated: bool,
    /// How it lies.
    pub lie: Lie,
    /// What it states as delay to its own reference.
    pub root_delay: Duration,
    /// What it states as error beyond that.
    pub root_dispersion: Duration,
    /// Its error now, within the two.
    error: Duration,
    /// Whether the error stays at one end of what is stated: +1, −1, or 0.
    pinned: i64,
    noise: Noise,
}

/// How a source lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    /// It does not.
    Honest,
    /// It is off by this, always.
    Constant(Duration),
    /// It goes wrong slowly, so that no answer contradicts the one before:
    /// parts per million of true time.
    Creeping(i64),
    /// Each answer is off by another amount, up to this.
    Erratic(Duration),
}

impl SimulatedSource {
    /// An honest source with a small error of its own.
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

    /// What it shows at a true instant, in whole nanoseconds.
    pub fn show(&mut self, true_ns: i64) -> Instant<Timeline> {
        // A slow walk over all of what is stated, ends included.
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
