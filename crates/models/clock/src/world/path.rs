//! Network path between a machine and a source.

use timeloom_time::Duration;
use timeloom_time::convert::low_u32;

use timeloom_random::Random;

/// Path with packet loss, and with different delays in the two directions.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Minimum delay from the machine to the source.
    pub up: Duration,
    /// Minimum delay from the source to the machine.
    pub down: Duration,
    /// Maximum queueing delay in each direction; most packets are delayed much less.
    pub queues: Duration,
    /// Probability that a packet is lost, in each direction.
    pub loss: f64,
}

impl Path {
    /// Returns a random path. Usually it has delays of 10 µs … 20 ms, independent in each
    /// direction, and up to 30 % loss; sometimes it has no delay at all, so that only rounding
    /// errors remain.
    pub fn random(noise: &mut Random) -> Self {
        if noise.chance(0.2) {
            let none = Duration::ZERO;
            return Self {
                up: none,
                down: none,
                queues: none,
                loss: 0.1,
            };
        }
        let way = |noise: &mut Random| {
            let decade = low_u32(noise.below(4));
            Duration::from_ns(noise.between(10_000, 20_000) * 10i64.pow(decade))
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

    /// Returns the delay of one packet in the direction whose minimum delay is `least`; `None` if
    /// the packet is lost. The cube of a uniform random number gives the delays a long tail.
    pub fn delay(&self, least: Duration, noise: &mut Random) -> Option<Duration> {
        let queued = noise.unit().powi(3) * self.queues.as_ns() as f64;
        let lost = noise.chance(self.loss);
        (!lost).then_some(least + Duration::from_ns_f64(queued))
    }
}
