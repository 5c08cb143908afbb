//! Links with RED, loss, duplication or fluid, which need no event of their own.

use timeloom_time::{Instant, Virtual};

use super::{Extra, Link, Offered, bits_of};
use crate::packet::Packet;
use crate::queue::Verdict;
use crate::tables::slab::{PacketId, Slab};

impl Link {
    /// Offers a packet to a link with RED, loss, duplication or fluid.
    pub(super) fn offer_impaired(
        &mut self,
        now: Instant<Virtual>,
        id: PacketId,
        packets: &mut Slab,
        extra: &mut Extra,
    ) -> Offered {
        let waiting = self.unsent.saturating_sub(1);
        let mut early = None;
        if let Some(fluid) = &mut extra.fluid {
            let per_byte = self.per_byte_ns();
            fluid.advance(now, self.unsent, &mut self.free, per_byte);
            early = fluid.judge(self.unsent, self.free, per_byte);
            if early != Some(Verdict::Drop) && !fluid.admits(self.unsent, &mut self.free, per_byte)
            {
                return self.drop(id, packets);
            }
        }
        let verdict = match &mut extra.red {
            _ if early.is_some() => early.unwrap_or(Verdict::Admit),
            Some(red) => {
                let idle_ns = now.as_ns() as f64 - (self.free >> 64) as f64;
                let bytes = f64::from(packets[id].size) + f64::from(self.overhead);
                let packet_ns = (self.per_byte >> 32) as f64 / f64::from(u32::MAX) * bytes;
                red.judge(waiting, idle_ns / packet_ns.max(1.0), &mut extra.random)
            }
            None if self.unsent <= self.limit => Verdict::Admit,
            None => Verdict::Drop,
        };
        match verdict {
            Verdict::Admit => {}
            Verdict::Mark if packets[id].mark() => self.stats.marked += 1,
            Verdict::Mark | Verdict::Drop => return self.drop(id, packets),
        }
        let lost = extra.random.chance(extra.impairment.loss);
        if lost {
            self.stats.lost += 1;
            packets[id].flags |= Packet::LOST;
        }
        let start = self.free.max(bits_of(now));
        let answer = self.append(now, id, packets);
        if let Some(fluid) = &mut extra.fluid {
            fluid.note_packet(start, self.free, packets[id].wire_bytes(self.overhead));
        }
        if !lost && extra.random.chance(extra.impairment.duplication) {
            // The copy arrives immediately after the packet. The transmitter has sent only one
            // packet, so the copy never counts as waiting.
            let copy = packets[id];
            let copy = packets.insert(copy);
            self.flight.push(copy, packets);
            self.unsent += 1;
            if let Some(fluid) = &mut extra.fluid {
                fluid.unsent_bytes += u64::from(packets[copy].wire_bytes(self.overhead));
            }
        }
        answer
    }
}
