//! The way to a source.

use timeloom_time::Duration;

use crate::noise::Noise;

/// A path that takes unequal times each way and loses packets.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Least time to the source.
    pub up: Duration,
    /// Least time back.
    pub down: Duration,
    /// Queues add up to this each way, mostly much less.
    pub queues: Duration,
    /// Probability that a packet is lost, each way.
    pub loss: f64,
}

impl Path {
    /// Some path: 10 µs … 20 ms each way, independently, as lossy as 30 %; or
    /// one that takes no time at all, where only rounding is left.
    pub fn random(noise: &mut Noise) -> Self {
        if noise.chance(0.2) {
            let none = Duration::ZERO;
            return Self {
                up: none,
                down: none,
                queues: none,
                loss: 0.1,
            };
        }
        let way = |noise: &mut Noise| {
            let decade = noise.between(0, 4);
            Duration::from_ns(noise.between(10_000, 20_000) * 10i64.pow(decade as u32))
        };
        let (up, down) = (way(noise), way(noise));
        let queues = Duration::from_ns(noise.between(1_000, 5_000_000));
        Self {
            up,
            down,
            queues,
            loss: noise.unit() * 0.3,
        }
    }

    /// How long a packet takes on a way that takes at least `least`; `None`
    /// when it is lost. The cube of a uniform has a long tail.
    pub fn delay(&self, least: Duration, noise: &mut Noise) -> Option<Duration> {
        let queued = noise.unit().powi(3) * self.queues.as_ns() as f64;
        let lost = noise.chance(self.loss);
        (!lost).then_some(least + Duration::from_ns(queued as i64))
    }
}
