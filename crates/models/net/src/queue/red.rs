//! Random early detection (RED).

use timeloom_engine::Random;

use crate::config::RedConfig;

/// RED as in Floyd and Jacobson, "Random early detection gateways for congestion avoidance",
/// IEEE/ACM ToN 1(4), 1993, figure 2. Above `max_threshold` it has the gentle slope that Floyd
/// recommended later.
#[derive(Clone, Debug)]
pub(crate) struct Red {
    config: RedConfig,
    average: f64,
    /// Number of packets admitted since the last drop, by which drops are spread evenly.
    count: i64,
}

/// Decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admit,
    /// Mark the packet if its transport supports marks; otherwise drop it.
    Mark,
    Drop,
}

impl Red {
    pub(crate) fn new(config: RedConfig) -> Self {
        Self {
            config,
            average: 0.0,
            count: -1,
        }
    }

    /// Returns the parameters of this queue.
    pub(crate) fn config(&self) -> RedConfig {
        self.config
    }

    /// Decides about a packet that finds `waiting` others in the queue. `idle_packets` is the
    /// number of packets that could have been sent while the queue was empty.
    pub(crate) fn judge(
        &mut self,
        waiting: u32,
        idle_packets: f64,
        random: &mut Random,
    ) -> Verdict {
        let RedConfig {
            min_threshold,
            max_threshold,
            max_probability,
            weight,
            packets,
            ecn,
        } = self.config;
        if idle_packets > 0.0 {
            self.average *= (1.0 - weight).powf(idle_packets);
        }
        self.average += weight * (f64::from(waiting) - self.average);
        if waiting >= packets {
            self.count = 0;
            return Verdict::Drop;
        }
        if min_threshold == max_threshold && self.average >= min_threshold {
            return if ecn { Verdict::Mark } else { Verdict::Drop };
        }
        if self.average < min_threshold {
            self.count = -1;
            return Verdict::Admit;
        }
        let base = if self.average < max_threshold {
            max_probability * (self.average - min_threshold) / (max_threshold - min_threshold)
        } else {
            max_probability + (1.0 - max_probability) * (self.average / max_threshold - 1.0)
        };
        self.count += 1;
        let left = 1.0 - self.count as f64 * base;
        let probability = if left > 0.0 { base / left } else { 1.0 };
        if !random.chance(probability) {
            return Verdict::Admit;
        }
        self.count = 0;
        if ecn && self.average < max_threshold {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }
}
