//! Random early detection.

use timeloom_engine::Random;

use crate::config::RedConfig;

/// Floyd and Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM ToN
/// 1(4), 1993, figure 2, with the gentle slope above `max_threshold` that the first author
/// recommended later.
#[derive(Clone, Debug)]
pub(crate) struct Red {
    config: RedConfig,
    average: f64,
    /// Packets admitted since the last drop; spreads drops evenly.
    count: i64,
}

/// Verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admit,
    /// Marked if its transport supports marks, else dropped.
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

    /// Returns the configuration.
    pub(crate) fn config(&self) -> RedConfig {
        self.config
    }

    /// Returns the verdict on a packet that finds `waiting` others. `idle_packets` is the number of
    /// packets that could have been sent since the queue became empty.
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
