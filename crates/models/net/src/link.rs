//! One direction of a cable: rate, delay, queue and impairments.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Rate, Virtual};

use crate::config::{Impairment, LinkConfig, QueueConfig};
use crate::fluid::FluidQueue;
use crate::packet::{NIL, Packet};
use crate::queue::{Discipline, Red, Verdict};
use crate::tables::slab::{Fifo, PacketId, Slab};
use crate::tables::stats::LinkStats;

/// One direction of a cable.
///
/// Packets on it, waiting or in flight, stand in one list in the order of
/// their arrival, and only the first is in the event queue. When a packet is
/// offered, the end of its transmission is computed at once: the transmitter
/// is free at an instant that is known. Who still waits is found by walking a
/// cursor over the list, each packet once.
#[derive(Debug)]
pub(crate) struct Link {
    /// When the transmitter has sent all it was given: ns and 2^-64 ns, so
    /// that back-to-back packets do not add up roundings.
    pub(crate) free: u128,
    /// ns per byte, 64.64.
    pub(crate) per_byte: u128,
    delay: Duration,
    flight: Fifo,
    /// First packet whose transmission has not ended, as of the last look.
    cursor: u32,
    /// Packets from the cursor on.
    pub(crate) unsent: u32,
    /// Packets that travel outside the order of the list: when, in which order
    /// they were put here, and where they are.
    singles: BinaryHeap<Reverse<(Instant<Virtual>, u64, u32)>>,
    single_count: u64,
    pub(crate) limit: u32,
    pub(crate) overhead: u32,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) stats: LinkStats,
    pub(crate) up: bool,
    mtu: u16,
    /// Another engine has the other end: what is transmitted leaves this world.
    crosses: bool,
}

/// What most links do not have.
#[derive(Debug)]
pub(crate) struct Extra {
    pub(crate) impairment: Impairment,
    pub(crate) random: Random,
    pub(crate) red: Option<Red>,
    /// Set for links that need an event at the end of each transmission.
    pub(crate) scheduled: Option<Scheduled>,
    /// Set for links that fluid flows pass.
    pub(crate) fluid: Option<Box<FluidQueue>>,
}

#[derive(Debug)]
pub(crate) struct Scheduled {
    queue: Discipline,
    serving: Option<PacketId>,
    /// No packet may arrive before this one, where order is kept.
    last_arrival: Instant<Virtual>,
    /// The departure that a transmission which has begun is, if somebody waits
    /// for it.
    begun: Option<u32>,
}

/// What a link wants after it was given a packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// Nothing: an appointment is there already.
    Queued,
    /// To be asked for its first arrival at this instant.
    Arrival(Instant<Virtual>),
    /// To be told of the end of a transmission at this instant.
    EndOfTransmission(Instant<Virtual>),
    /// This packet, and those behind it in the list, leave for another engine.
    Crosses(PacketId),
    /// The packet is gone; it was freed.
    Dropped,
}

impl Extra {
    /// A packet of so many bytes has been sent.
    #[inline]
    fn sent(&mut self, bytes: u32) {
        if let Some(fluid) = &mut self.fluid {
            fluid.sent(bytes);
        }
    }
}

impl Link {
    pub(crate) fn new(config: &LinkConfig, random: Random) -> Self {
        let per_byte = Rate::from_ratio(8_000_000_000, config.rate_bps).unwrap_or(Rate::STOPPED);
        let (limit, red, scheduling) = match &config.queue {
            QueueConfig::DropTail { packets } => (*packets, None, false),
            QueueConfig::Red(red) => (red.packets, Some(Red::new(*red)), false),
            QueueConfig::CoDel { packets, .. } | QueueConfig::Priority { packets } => {
                (*packets, None, true)
            }
        };
        let scheduled = scheduling || config.impairment.disturbs();
        let plain = red.is_none() && config.impairment == Impairment::default() && !scheduled;
        let extra = (!plain).then(|| {
            Box::new(Extra {
                impairment: config.impairment,
                random,
                red,
                scheduled: scheduled.then(|| Scheduled {
                    queue: Discipline::new(&config.queue),
                    serving: None,
                    last_arrival: Instant::ZERO,
                    begun: None,
                }),
                fluid: None,
            })
        });
        Self {
            free: 0,
            per_byte: per_byte.to_bits(),
            delay: config.delay,
            flight: Fifo::EMPTY,
            cursor: NIL,
            unsent: 0,
            singles: BinaryHeap::new(),
            single_count: 0,
            limit,
            overhead: u32::from(config.overhead_bytes),
            extra,
            stats: LinkStats::default(),
            up: true,
            mtu: config.mtu,
            crosses: false,
        }
    }

    /// Makes this the end of a link of which another engine has the other.
    pub(crate) fn set_crosses(&mut self, crosses: bool) {
        self.crosses = crosses;
    }

    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Bytes of the longest IP packet that it takes.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Puts the link up or down. What is in flight still arrives.
    pub(crate) fn set_up(&mut self, up: bool) {
        self.up = up;
    }

    /// Packets that wait for transmission at `now`.
    pub(crate) fn waiting(&mut self, now: Instant<Virtual>, packets: &Slab) -> u32 {
        if let Some(scheduled) = self.extra.as_ref().and_then(|e| e.scheduled.as_ref()) {
            return scheduled.queue.len();
        }
        self.move_cursor(now, packets);
        self.unsent.saturating_sub(1)
    }

    #[inline]
    pub(crate) fn move_cursor(&mut self, now: Instant<Virtual>, packets: &Slab) {
        while self.cursor != NIL {
            let packet = &packets[PacketId(self.cursor)];
            if packet.at - self.delay > now {
                break;
            }
            self.cursor = packet.next;
            self.unsent -= packet.segments();
            if let Some(extra) = &mut self.extra {
                extra.sent(packet.wire_bytes(self.overhead));
            }
        }
    }

    /// How many segments of `segment` bytes each may be sent as one: no more
    /// than last for `train_time`, and a single one where chance or the queue
    /// decides about each packet for itself.
    pub(crate) fn train_of(&self, segment: u32, train_time: Duration) -> u32 {
        if self.extra.is_some() || self.crosses {
            return 1;
        }
        let each = self.per_byte * u128::from(segment + self.overhead);
        let time = (train_time.as_ns().max(0) as u128) << 64;
        (time / each.max(1)).clamp(1, u128::from(u32::MAX)) as u32
    }

    /// How many packets are let in now before the queue is full.
    pub(crate) fn room(&mut self, now: Instant<Virtual>, packets: &Slab) -> u32 {
        if self.extra.is_some() || !self.up || self.crosses {
            return u32::MAX;
        }
        self.move_cursor(now, packets);
        self.limit.saturating_add(1).saturating_sub(self.unsent)
    }

    /// Takes a packet to be transmitted.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        now: Instant<Virtual>,
        id: PacketId,
        packets: &mut Slab,
    ) -> Offered {
        self.move_cursor(now, packets);
        if self.extra.is_some() || !self.up || self.crosses {
            return self.offer_extra(now, id, packets);
        }
        if self.unsent > self.limit {
            return self.drop(id, packets);
        }
        self.append(now, id, packets)
    }

    fn drop(&mut self, id: PacketId, packets: &mut Slab) -> Offered {
        self.stats.dropped += u64::from(packets[id].segments());
        packets.remove(id);
        Offered::Dropped
    }

    /// Occupies the transmitter; gives back the end of the transmission.
    #[inline]
    fn occupy(&mut self, now: Instant<Virtual>, packet: &Packet) -> Instant<Virtual> {
        let bytes = packet.wire_bytes(self.overhead);
        let now_bits = (now.as_ns() as u128) << 64;
        let start = self.free.max(now_bits);
        self.stats.waited_ns += ((start - now_bits) >> 64) as u64;
        self.stats.packets += u64::from(packet.segments());
        self.stats.bytes += u64::from(bytes);
        self.free = start + self.per_byte * u128::from(bytes);
        // Rounded up: the last bit has left at the instant that is named.
        Instant::from_ns(((self.free + u128::from(u64::MAX)) >> 64) as i64)
    }

    /// How long the wire is busy with a packet, rounded up.
    pub(crate) fn time_of(&self, packet: &Packet) -> Duration {
        let bits = self.per_byte * u128::from(packet.wire_bytes(self.overhead));
        Duration::from_ns(((bits + u128::from(u64::MAX)) >> 64) as i64)
    }

    /// When the transmission of a packet would begin that is offered at `now`,
    /// rounded up. `None` where others may overtake it while it waits.
    pub(crate) fn next_start(&self, now: Instant<Virtual>) -> Option<Instant<Virtual>> {
        if self.extra.as_ref().is_some_and(|e| e.scheduled.is_some()) {
            return None;
        }
        let free = (self.free + u128::from(u64::MAX)) >> 64;
        Some(now.max(Instant::from_ns(free as i64)))
    }

    /// When the transmission began, or will, of the packet that was last let in,
    /// where fluid may have given way to it.
    pub(crate) fn last_start(&self) -> Option<Instant<Virtual>> {
        let fluid = self.extra.as_ref()?.fluid.as_ref()?;
        Some(fluid.last_start())
    }

    /// The departure of which the transmission has begun since the last call.
    pub(crate) fn take_begun(&mut self) -> Option<u32> {
        self.extra.as_mut()?.scheduled.as_mut()?.begun.take()
    }

    /// Puts the packet behind the others, its times computed.
    #[inline]
    fn append(&mut self, now: Instant<Virtual>, id: PacketId, packets: &mut Slab) -> Offered {
        let end = self.occupy(now, &packets[id]);
        let at = end + self.delay;
        packets[id].at = at;
        let segments = packets[id].segments();
        let first = self.flight.len() == 0;
        self.flight.push(id, packets);
        if self.cursor == NIL {
            self.cursor = id.0;
        }
        self.unsent += segments;
        if first {
            Offered::Arrival(at)
        } else {
            Offered::Queued
        }
    }

    #[cold]
    fn offer_extra(&mut self, now: Instant<Virtual>, id: PacketId, packets: &mut Slab) -> Offered {
        if !self.up {
            return self.drop(id, packets);
        }
        if self.crosses {
            return self.offer_crossing(now, id, packets);
        }
        let Some(mut extra) = self.extra.take() else {
            return self.append(now, id, packets);
        };
        let answer = match &mut extra.scheduled {
            Some(scheduled) => self.offer_scheduled(now, id, packets, scheduled),
            None => self.offer_impaired(now, id, packets, &mut extra),
        };
        self.extra = Some(extra);
        answer
    }

    /// The same when another engine has the other end. Nothing arrives here, so
    /// what has been transmitted is cleared away when the next packet comes.
    fn offer_crossing(
        &mut self,
        now: Instant<Virtual>,
        id: PacketId,
        packets: &mut Slab,
    ) -> Offered {
        while let Some(sent) = self.flight.first().filter(|id| id.0 != self.cursor) {
            self.flight.pop(packets);
            packets.remove(sent);
        }
        let before = self.flight.last();
        let answer = match self.extra.take() {
            None if self.unsent > self.limit => self.drop(id, packets),
            None => self.append(now, id, packets),
            Some(mut extra) => {
                let answer = match &mut extra.scheduled {
                    Some(scheduled) => self.offer_scheduled(now, id, packets, scheduled),
                    None => self.offer_impaired(now, id, packets, &mut extra),
                };
                self.extra = Some(extra);
                answer
            }
        };
        if !matches!(answer, Offered::Arrival(_) | Offered::Queued) {
            return answer;
        }
        // A scheduled link has nothing in flight: its packets cross at the end
        // of their transmission.
        let first = before.map_or(self.flight.first(), |last| packets.after(last));
        match first {
            Some(first) => Offered::Crosses(first),
            None => nothing_crosses(answer),
        }
    }

    /// A packet of which another engine has computed the arrival. Those that
    /// come in order go into the list; its answer is when to be asked for the
    /// first of them. `None` means that the packet is to travel alone.
    pub(crate) fn take_over(&mut self, id: PacketId, packets: &mut Slab) -> Option<Offered> {
        let at = packets[id].at;
        let last = self.flight.last();
        let disordered = last.is_some_and(|last| packets[last].at > at);
        let jitters = self.extra.as_ref().is_some_and(|e| e.scheduled.is_some());
        if disordered || jitters {
            return None;
        }
        self.flight.push(id, packets);
        Some(if last.is_none() {
            Offered::Arrival(at)
        } else {
            Offered::Queued
        })
    }

    /// Puts a packet among those that travel alone on this link.
    pub(crate) fn add_single(&mut self, at: Instant<Virtual>, id: PacketId) {
        self.single_count += 1;
        self.singles.push(Reverse((at, self.single_count, id.0)));
    }

    /// The first of those that travel alone.
    pub(crate) fn take_single(&mut self) -> Option<PacketId> {
        let Reverse((_, _, id)) = self.singles.pop()?;
        Some(PacketId(id))
    }

    /// RED, loss and duplication, which need no event of their own.
    fn offer_impaired(
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
        let start = self.free.max((now.as_ns() as u128) << 64);
        let answer = self.append(now, id, packets);
        if let Some(fluid) = &mut extra.fluid {
            fluid.note_packet(start, self.free, packets[id].wire_bytes(self.overhead));
        }
        if !lost && extra.random.chance(extra.impairment.duplication) {
            // The copy arrives right behind; the transmitter sent only one, so
            // the copy never counts as waiting.
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

    fn offer_scheduled(
        &mut self,
        now: Instant<Virtual>,
        id: PacketId,
        packets: &mut Slab,
        scheduled: &mut Scheduled,
    ) -> Offered {
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

    /// Begins the next transmission; gives back its end.
    fn serve(
        &mut self,
        now: Instant<Virtual>,
        packets: &mut Slab,
        scheduled: &mut Scheduled,
    ) -> Option<Instant<Virtual>> {
        let stats = &mut self.stats;
        scheduled.serving = scheduled.queue.dequeue(now, packets, stats);
        let id = scheduled.serving?;
        self.stats.waited_ns += (now - packets[id].at).as_ns() as u64;
        if packets[id].flags & Packet::STAMPED != 0 {
            scheduled.begun = Some(packets[id].link.0);
        }
        // A fraction of the last packet's final nanosecond may still be taken;
        // that is not waiting.
        let waited = self.stats.waited_ns;
        let end = self.occupy(now, &packets[id]);
        self.stats.waited_ns = waited;
        Some(end)
    }

    /// A transmission has ended: where the packet is going (with its copy, if
    /// any), each to arrive at its `at`, and the end of the next one.
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
                    self.stats.lost += 1;
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
        let jitter = random.below(impairment.jitter.as_ns() as u64 + 1);
        let mut at = end + self.delay + Duration::from_ns(jitter as i64);
        if !impairment.jitter_reorders {
            at = at.max(scheduled.last_arrival);
            scheduled.last_arrival = at;
        }
        at
    }

    /// The packet that arrives now, and when the next one does.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        packets: &Slab,
    ) -> (Option<PacketId>, Option<Instant<Virtual>>) {
        let first = self.flight.pop(packets);
        if first.is_some_and(|id| id.0 == self.cursor) {
            self.cursor = self.flight.first().map_or(NIL, |id| id.0);
            self.unsent -= first.map_or(0, |id| packets[id].segments());
            if let (Some(extra), Some(id)) = (&mut self.extra, first) {
                extra.sent(packets[id].wire_bytes(self.overhead));
            }
        }
        let next = self.flight.first().map(|id| packets[id].at);
        (first, next)
    }
}

/// What a cut link answers when a packet waits or is lost. Not inlined: the answer
/// would be copied, on the way that all other packets take, right after it was
/// written piece by piece, which makes the processor wait.
#[cold]
#[inline(never)]
fn nothing_crosses(answer: Offered) -> Offered {
    answer
}

/// What comes out of a transmitter.
#[derive(Debug, Default)]
pub(crate) struct Transmitted {
    /// The packet and its copy.
    pub(crate) packets: [Option<PacketId>; 2],
    /// The end of the transmission that has begun now.
    pub(crate) next_end: Option<Instant<Virtual>>,
    /// Which departure that is, if somebody waits for it.
    pub(crate) begun: Option<u32>,
}
