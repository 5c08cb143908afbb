//! Network path to a source.

use timeloom_time::Duration;

use crate::noise::Noise;

/// Path with unequal delays in each direction and packet loss.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Minimum delay to the source.
    pub up: Duration,
    /// Minimum delay back.
    pub down: Duration,
    /// Maximum queueing delay in each direction; mostly much less.
    pub queues: Duration,
    /// Probability of loss of a packet, in each direction.
    pub loss: f64,
}

impl Path {
    /// Returns a random path: 10 µs … 20 ms in each direction, independently, with up to 30 % loss;
    /// or one without any delay, where only rounding is left.
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

    /// Returns the delay of a packet in a direction with the minimum `least`; `None` if it is lost.
    /// The cube of a uniform has a long tail.
    pub fn delay(&self, least: Duration, noise: &mut Noise) -> Option<Duration> {
        let queued = noise.unit().powi(3) * self.queues.as_ns() as f64;
        let lost = noise.chance(self.loss);
        (!lost).then_some(least + Duration::from_ns(queued as i64))
    }
}
