//! Links that change while the network runs.
//!
//! A changing link handles each transmission by an event at its end, like a link with jitter. So a
//! change affects each packet at a defined instant:
//!
//! - A new rate applies to transmissions that begin later.
//! - A new delay, jitter and loss apply to transmissions that end later. Packets in flight keep
//!   their arrival. Packets stay in order: one that would arrive before its predecessor, because
//!   the delay was shortened, arrives at the same instant as the predecessor.
//! - When the link goes down, waiting packets are dropped, as are all that are offered until it is
//!   up again. The packet in transmission is transmitted, and packets in flight arrive.

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Rate, Virtual};

use super::scheduled::Scheduled;
use super::{Extra, Link, bits_of};
use crate::config::{Impairment, LinkChange, LinkConfig};
use crate::packet::{NIL, Packet};
use crate::queue::Discipline;
use crate::tables::slab::{Fifo, PacketId, Slab};

impl Link {
    /// Makes a link without packets handle each transmission by an event.
    pub(crate) fn expect_changes(&mut self, config: &LinkConfig, random: Random) {
        let extra = self.extra.get_or_insert_with(|| Box::new(plain(random)));
        if extra.scheduled.is_none() {
            extra.scheduled = Some(Scheduled::new(Discipline::new(&config.queue)));
        }
    }

    /// Makes a link that already has packets handle each transmission by an event. Returns the end
    /// of the transmission in progress, for which the caller must schedule an event.
    ///
    /// Waiting packets return to the queue, as if they had been offered now; those of a cut link
    /// have already left for the other engine and keep their times.
    pub(crate) fn begin_changes(
        &mut self,
        now: Instant<Virtual>,
        (config, random): (&LinkConfig, Random),
        packets: &mut Slab,
    ) -> Option<Instant<Virtual>> {
        self.move_cursor(now, packets);
        let mut extra = self.extra.take().unwrap_or_else(|| Box::new(plain(random)));
        let mut serving_until = None;
        if extra.scheduled.is_none() {
            let mut scheduled = Scheduled::new(Discipline::new(&config.queue));
            let mut list = std::mem::replace(&mut self.flight, Fifo::EMPTY);
            let cursor = std::mem::replace(&mut self.cursor, NIL);
            self.unsent = 0;
            while let Some(id) = list.first().filter(|id| self.crosses || id.0 != cursor) {
                list.pop(packets);
                scheduled.keep_order(packets[id].at);
                match self.crosses {
                    true => packets.remove(id),
                    false => self.flight.push(id, packets),
                }
            }
            if let Some(first) = list.pop(packets) {
                let end = packets[first].at - self.delay;
                self.decide_again(first, packets);
                self.free = bits_of(end);
                scheduled.serve_next(first);
                serving_until = Some(end);
            }
            let mut start = serving_until.unwrap_or(now);
            while let Some(id) = list.pop(packets) {
                let end = packets[id].at - self.delay;
                self.decide_again(id, packets);
                self.take_back(id, start - now, packets);
                start = end;
                if !scheduled.enqueue(now, id, packets) {
                    self.drop(id, packets);
                }
            }
            extra.scheduled = Some(scheduled);
        }
        self.extra = Some(extra);
        serving_until
    }

    /// Undoes the decision about the loss of a packet, which is made again when its transmission
    /// ends.
    fn decide_again(&mut self, id: PacketId, packets: &mut Slab) {
        if packets[id].flags & Packet::LOST != 0 {
            packets[id].flags &= !Packet::LOST;
            self.stats.lost = self.stats.lost.saturating_sub(1);
        }
    }

    /// Undoes the counts of a packet whose transmission would have begun after `waits`.
    fn take_back(&mut self, id: PacketId, waits: Duration, packets: &Slab) {
        let (packet, stats) = (&packets[id], &mut self.stats);
        let bytes = u64::from(packet.wire_bytes(self.overhead));
        stats.packets = stats.packets.saturating_sub(packet.segments().into());
        stats.bytes = stats.bytes.saturating_sub(bytes);
        stats.waited_ns = stats.waited_ns.saturating_sub(waits.as_unsigned_ns());
    }

    /// Changes the link, which must handle each transmission by an event ([`Self::begin_changes`]).
    /// Returns the packets that the link drops because it goes down.
    pub(crate) fn change(
        &mut self,
        now: Instant<Virtual>,
        change: &LinkChange,
        packets: &mut Slab,
    ) -> Vec<PacketId> {
        if let Some(rate_bps) = change.rate_bps {
            self.per_byte = per_byte(rate_bps).to_bits();
        }
        self.delay = change.delay.unwrap_or(self.delay);
        if let Some(enabled) = change.up {
            self.set_enabled(enabled);
        }
        let Some(extra) = &mut self.extra else {
            return Vec::new();
        };
        let impairment = &mut extra.impairment;
        impairment.loss = change.loss.unwrap_or(impairment.loss);
        impairment.jitter = change.jitter.unwrap_or(impairment.jitter);
        let (Some(scheduled), Some(false)) = (&mut extra.scheduled, change.up) else {
            return Vec::new();
        };
        let stats = &mut self.stats;
        let waiting = std::iter::from_fn(|| scheduled.dequeue(now, packets, stats));
        let waiting: Vec<PacketId> = waiting.collect();
        for id in &waiting {
            self.stats.dropped += u64::from(packets[*id].segments());
        }
        waiting
    }

    /// Returns the present rate in bits per second.
    pub(crate) fn rate_bps(&self) -> u64 {
        // Rounded to the nearest, since the time of a byte is rounded.
        let per_byte = self.per_byte.max(1);
        u64::try_from(((8_000_000_000_u128 << 64) + per_byte / 2) / per_byte).unwrap_or(u64::MAX)
    }
}

/// Returns the transmission time of a byte in ns.
pub(super) fn per_byte(rate_bps: u64) -> Rate {
    Rate::from_ratio(8_000_000_000, rate_bps).unwrap_or(Rate::STOPPED)
}

/// Returns the features of a link that has none.
fn plain(random: Random) -> Extra {
    Extra {
        impairment: Impairment::default(),
        random,
        red: None,
        scheduled: None,
        fluid: None,
    }
}
