//! Links that select the next packet when a transmission begins, and links whose packets arrive out
//! of order. Each transmission on them has an event at its end.

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

use super::{Link, Offered, instant_after};
use crate::config::Impairment;
use crate::packet::Packet;
use crate::queue::Discipline;
use crate::tables::slab::{PacketId, Slab};
use crate::tables::stats::LinkStats;

#[derive(Clone, Debug)]
pub(super) struct Scheduled {
    queue: Discipline,
    serving: Option<PacketId>,
    /// Earliest possible arrival of the next packet, if packets must stay in order.
    last_arrival: Instant<Virtual>,
    /// Number of the departure whose transmission has begun and must be reported.
    begun: Option<u32>,
}

/// Result of a transmission's end.
#[derive(Debug, Default)]
pub(crate) struct Transmitted {
    /// The transmitted packet, and its copy if it was duplicated.
    pub(crate) packets: [Option<PacketId>; 2],
    /// End of the transmission that begins now; `None` if the queue is empty.
    pub(crate) next_end: Option<Instant<Virtual>>,
    /// Number of the departure that begins now, if it must be reported.
    pub(crate) begun: Option<u32>,
}

impl Scheduled {
    pub(super) fn new(queue: Discipline) -> Self {
        Self {
            queue,
            serving: None,
            last_arrival: Instant::ZERO,
            begun: None,
        }
    }

    /// Returns the number of waiting packets.
    pub(super) fn len(&self) -> u32 {
        self.queue.len()
    }

    /// Adds a waiting packet; fails if there is no room.
    pub(super) fn enqueue(
        &mut self,
        now: Instant<Virtual>,
        id: PacketId,
        packets: &mut Slab,
    ) -> bool {
        self.queue.enqueue(now, id, packets)
    }

    /// Removes the next waiting packet.
    pub(super) fn dequeue(
        &mut self,
        now: Instant<Virtual>,
        packets: &mut Slab,
        stats: &mut LinkStats,
    ) -> Option<PacketId> {
        self.queue.dequeue(now, packets, stats)
    }

    /// Sets the packet in transmission.
    pub(super) fn serve_next(&mut self, id: PacketId) {
        self.serving = Some(id);
    }

    /// Lets no later packet arrive before `at`.
    pub(super) fn keep_order(&mut self, at: Instant<Virtual>) {
        self.last_arrival = self.last_arrival.max(at);
    }
}

impl Link {
    /// Returns the start of the transmission of a packet that is offered at `now`, rounded up.
    /// Returns `None` if later packets may overtake it while it waits.
    pub(crate) fn next_start(&self, now: Instant<Virtual>) -> Option<Instant<Virtual>> {
        if self.extra.as_ref().is_some_and(|e| e.scheduled.is_some()) {
            return None;
        }
        Some(now.max(instant_after(self.free)))
    }

    /// Returns the start of the transmission of the last admitted packet, if fluid may have been
    /// dropped in its place; `None` otherwise.
    pub(crate) fn last_start(&self) -> Option<Instant<Virtual>> {
        let fluid = self.extra.as_ref()?.fluid.as_ref()?;
        Some(fluid.last_start())
    }

    /// Returns the number of the departure whose transmission has begun since the last call.
    pub(crate) fn take_begun(&mut self) -> Option<u32> {
        self.extra.as_mut()?.scheduled.as_mut()?.begun.take()
    }

    pub(super) fn offer_scheduled(
        &mut self,
        now: Instant<Virtual>,
        id: PacketId,
        packets: &mut Slab,
        scheduled: &mut Scheduled,
    ) -> Offered {
        // The limit of the queue does not count the packet in transmission.
        if scheduled.serving.is_none() && scheduled.queue.has_no_room() {
            packets[id].at = now;
            return Offered::EndOfTransmission(self.transmit(now, id, packets, scheduled));
        }
        if !scheduled.queue.enqueue(now, id, packets) {
            return self.drop(id, packets);
        }
        if scheduled.serving.is_some() {
            return Offered::Queued;
        }
        match self.serve(now, packets, scheduled) {
            Some(end) => Offered::EndOfTransmission(end),
            None => Offered::Queued,
        }
    }

    /// Begins the next transmission; returns the instant of its end, or `None` if no packet waits.
    fn serve(
        &mut self,
        now: Instant<Virtual>,
        packets: &mut Slab,
        scheduled: &mut Scheduled,
    ) -> Option<Instant<Virtual>> {
        let stats = &mut self.stats;
        let id = scheduled.queue.dequeue(now, packets, stats)?;
        Some(self.transmit(now, id, packets, scheduled))
    }

    /// Begins the transmission of a packet. Returns its end.
    fn transmit(
        &mut self,
        now: Instant<Virtual>,
        id: PacketId,
        packets: &Slab,
        scheduled: &mut Scheduled,
    ) -> Instant<Virtual> {
        scheduled.serving = Some(id);
        self.stats.waited_ns += (now - packets[id].at).as_unsigned_ns();
        if packets[id].flags & Packet::STAMPED != 0 {
            scheduled.begun = Some(packets[id].link.0);
        }
        // A fraction of the last packet's final nanosecond may remain; that does not count as
        // waiting.
        let waited = self.stats.waited_ns;
        let end = self.occupy(now, &packets[id]);
        self.stats.waited_ns = waited;
        end
    }

    /// Ends a transmission. Returns the packet (and its copy, if any), each of which arrives at its
    /// field `at`, and the end of the next transmission.
    pub(crate) fn end_of_transmission(
        &mut self,
        now: Instant<Virtual>,
        packets: &mut Slab,
    ) -> Transmitted {
        let mut transmitted = Transmitted::default();
        let Some(mut extra) = self.extra.take() else {
            return transmitted;
        };
        if let Some(scheduled) = &mut extra.scheduled {
            if let Some(id) = scheduled.serving.take() {
                let impairment = &extra.impairment;
                let random = &mut extra.random;
                if random.chance(impairment.loss) {
                    self.stats.lost += u64::from(packets[id].segments());
                    packets[id].flags |= Packet::LOST;
                }
                packets[id].at = self.arrival(now, impairment, random, scheduled);
                transmitted.packets[0] = Some(id);
                if random.chance(impairment.duplication) {
                    let mut copy = packets[id];
                    copy.at = self.arrival(now, impairment, random, scheduled);
                    transmitted.packets[1] = Some(packets.insert(copy));
                }
            }
            transmitted.next_end = self.serve(now, packets, scheduled);
            transmitted.begun = scheduled.begun.take();
        }
        self.extra = Some(extra);
        transmitted
    }

    fn arrival(
        &self,
        end: Instant<Virtual>,
        impairment: &Impairment,
        random: &mut Random,
        scheduled: &mut Scheduled,
    ) -> Instant<Virtual> {
        if random.chance(impairment.reordering) {
            return end;
        }
        let jitter = random.below(impairment.jitter.as_unsigned_ns() + 1);
        let mut at = end + self.delay + Duration::from_ns(jitter.cast_signed());
        if !impairment.jitter_reorders {
            at = at.max(scheduled.last_arrival);
            scheduled.last_arrival = at;
        }
        at
    }
}
