//! Random early detection (RED) for fluid.
//!
//! The average queue length follows the waiting packets and fluid. It is updated once for each
//! packet that arrives or that arriving fluid represents. The fraction of the fluid that is lost
//! early is the fraction of as many packets that RED would drop. This is the model of Misra, Gong
//! and Towsley ("Fluid-based analysis of a network of AQM routers supporting TCP flows", SIGCOMM
//! 2000), with the average itself as state.
//!
//! RED spreads its drops: after a drop, the next one is uniformly distributed over the following
//! 1/p − 1 packets, so that the fraction 2p is dropped at a base probability of p (Floyd and
//! Jacobson 1993, section VII). A real packet among fluid is dropped with that probability,
//! independently of others: most packets near it are fluid, and so are most drops between two real
//! packets.

use crate::config::RedConfig;
use crate::queue::Verdict;

/// State of RED for a queue with fluid.
#[derive(Clone, Debug)]
pub(super) struct FluidRed {
    config: RedConfig,
    average: f64,
}

impl FluidRed {
    pub(super) fn new(config: RedConfig) -> Self {
        Self {
            config,
            average: 0.0,
        }
    }

    /// Updates the average for `packets` packets that arrived, or that could have arrived while the
    /// queue was empty. `waiting` is the number of waiting packets.
    pub(super) fn see(&mut self, packets: f64, waiting: f64) {
        let left = (1.0 - self.config.weight).powf(packets);
        self.average = waiting + (self.average - waiting) * left;
    }

    /// Returns the fraction of the arrivals that is dropped, or marked if its transport supports
    /// marks.
    pub(super) fn loss(&self) -> f64 {
        let config = &self.config;
        let (least, most) = (config.min_threshold, config.max_threshold);
        let base = if self.average < least {
            0.0
        } else if self.average < most {
            config.max_probability * (self.average - least) / (most - least)
        } else {
            let more = self.average / most - 1.0;
            config.max_probability + (1.0 - config.max_probability) * more
        };
        (2.0 * base).min(1.0)
    }

    /// Returns the verdict on a packet. `chance` is a random number from 0 to 1, and `waiting` the
    /// number of waiting packets.
    pub(super) fn judge(&mut self, waiting: f64, chance: f64) -> Verdict {
        self.see(1.0, waiting);
        if chance >= self.loss() {
            Verdict::Admit
        } else if self.config.ecn && self.average < self.config.max_threshold {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }
}

#[cfg(test)]
mod tests {
    use timeloom_engine::Random;

    use super::*;
    use crate::queue::Red;

    fn config() -> RedConfig {
        RedConfig {
            min_threshold: 5.0,
            max_threshold: 15.0,
            max_probability: 0.1,
            weight: 0.002,
            packets: 100,
            ecn: false,
        }
    }

    /// In a queue of constant length, fluid and packets lose the same fraction.
    #[test]
    fn of_a_steady_queue_as_much_is_lost_as_red_drops_of_packets() {
        for waiting in [3u32, 6, 10, 14, 17, 25] {
            let (mut red, mut fluid) = (Red::new(config()), FluidRed::new(config()));
            let mut random = Random::new(3, u64::from(waiting));
            let (mut dropped, mut expected) = (0u32, 0.0);
            const PACKETS: u32 = 200_000;
            for n in 0..PACKETS + 5_000 {
                fluid.see(1.0, f64::from(waiting));
                let verdict = red.judge(waiting, 0.0, &mut random);
                // The first samples are skipped, until both averages have converged.
                if n >= 5_000 {
                    dropped += u32::from(verdict != Verdict::Admit);
                    expected += fluid.loss();
                }
            }
            let off = (f64::from(dropped) - expected).abs() / f64::from(PACKETS);
            let part = expected / f64::from(PACKETS);
            // The agreement is exact where 1/p is large; near a half, the rounding of 1/p has an
            // effect.
            assert!(
                off <= 0.02 * part + 1e-4,
                "{waiting}: {dropped}, not {expected}"
            );
        }
    }

    #[test]
    fn many_packets_at_once_are_as_many_one_by_one() {
        let (mut one, mut many) = (FluidRed::new(config()), FluidRed::new(config()));
        for _ in 0..700 {
            one.see(1.0, 20.0);
        }
        many.see(700.0, 20.0);
        assert!((one.average - many.average).abs() < 1e-9);
    }
}
