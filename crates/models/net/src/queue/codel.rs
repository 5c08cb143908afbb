//! Controlled delay (CoDel), RFC 8289.

use timeloom_time::{Duration, Instant, Virtual};

use crate::tables::slab::{Fifo, PacketId, Slab};
use crate::tables::stats::LinkStats;

/// State of CoDel; the names are those of RFC 8289, section 5.
#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    list: Fifo,
    limit: u32,
    target: Duration,
    interval: Duration,
    first_above_time: Option<Instant<Virtual>>,
    drop_next: Instant<Virtual>,
    count: u32,
    last_count: u32,
    dropping: bool,
    ecn: bool,
}

impl CoDel {
    pub(crate) fn new(target: Duration, interval: Duration, limit: u32, ecn: bool) -> Self {
        Self {
            list: Fifo::EMPTY,
            limit,
            target,
            interval,
            first_above_time: None,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
            ecn,
        }
    }

    pub(crate) fn enqueue(&mut self, id: PacketId, packets: &mut Slab) -> bool {
        let room = self.list.len() < self.limit;
        if room {
            self.list.push(id, packets);
        }
        room
    }

    pub(crate) fn len(&self) -> u32 {
        self.list.len()
    }

    /// Removes the next packet to send (`dequeue` of section 5.5). In place of a drop, a packet
    /// that supports marks is marked and sent, if the queue is configured to mark.
    pub(crate) fn dequeue(
        &mut self,
        now: Instant<Virtual>,
        packets: &mut Slab,
        stats: &mut LinkStats,
    ) -> Option<PacketId> {
        let (mut first, mut ok_to_drop) = self.take(now, packets);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let Some(id) = first else { break };
                self.count += 1;
                if self.marks(id, packets, stats) {
                    self.drop_next = self.control_law(self.drop_next);
                    break;
                }
                packets.remove(id);
                stats.dropped += 1;
                (first, ok_to_drop) = self.take(now, packets);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if let (true, Some(id)) = (ok_to_drop, first) {
            if !self.marks(id, packets, stats) {
                packets.remove(id);
                stats.dropped += 1;
                (first, _) = self.take(now, packets);
            }
            self.dropping = true;
            // Soon after the previous dropping state, continue near the drop rate that was in use
            // then.
            let delta = self.count - self.last_count;
            let recent = now - self.drop_next < Duration::from_ns(16 * self.interval.as_ns());
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
        }
        first
    }

    fn marks(&self, id: PacketId, packets: &mut Slab, stats: &mut LinkStats) -> bool {
        let marked = self.ecn && packets[id].mark();
        stats.marked += u64::from(marked);
        marked
    }

    /// Removes the first packet (`dodequeue` of section 5.4). Also returns true if the waiting time
    /// has been above the target for an interval.
    fn take(&mut self, now: Instant<Virtual>, packets: &Slab) -> (Option<PacketId>, bool) {
        let Some(id) = self.list.pop(packets) else {
            self.first_above_time = None;
            return (None, false);
        };
        if now - packets[id].at < self.target || self.list.len() == 0 {
            self.first_above_time = None;
            return (Some(id), false);
        }
        let since = *self.first_above_time.get_or_insert(now + self.interval);
        (Some(id), now >= since)
    }

    /// Returns the time of the next drop (section 5.3): the interval divided by the root of the
    /// count.
    fn control_law(&self, from: Instant<Virtual>) -> Instant<Virtual> {
        let interval = self.interval.as_ns() as f64 / f64::from(self.count).sqrt();
        from + Duration::from_ns_f64(interval)
    }
}
