//! Simulated links.

use timeloom_ptp::{RandomSource, SplitMix64};

#[derive(Clone, Debug)]
pub struct Link {
    pub ends: [(usize, u16); 2],
    pub delay_ns: i64,
    /// Greatest additional delay in ns; the delay is uniform in 0 ..= jitter.
    pub jitter_ns: i64,
    /// Share of packets that are lost, in parts per thousand.
    pub loss_permille: u64,
    /// Share of packets that are delivered 300 µs late, after they were timestamped, so that later
    /// packets overtake them; in parts per thousand.
    pub reorder_permille: u64,
}

impl Link {
    pub fn new(delay_ns: i64) -> Self {
        Self {
            ends: [(0, 0); 2],
            delay_ns,
            jitter_ns: 0,
            loss_permille: 0,
            reorder_permille: 0,
        }
    }

    pub fn rough(delay_ns: i64) -> Self {
        Self {
            jitter_ns: 200,
            loss_permille: 10,
            reorder_permille: 20,
            ..Self::new(delay_ns)
        }
    }

    /// Returns the time on the wire and the time in the receiver's queue, in ns; `None` if the
    /// packet is lost.
    pub fn travel_ns(&self, random: &mut SplitMix64) -> Option<(i64, i64)> {
        if random.next_u64() % 1000 < self.loss_permille {
            return None;
        }
        let jitter = (random.next_u64() % (self.jitter_ns as u64 + 1)) as i64;
        let held = if random.next_u64() % 1000 < self.reorder_permille {
            300_000
        } else {
            0
        };
        Some((self.delay_ns + jitter, held))
    }
}
