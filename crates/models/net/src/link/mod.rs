//! Links: one direction of a cable, with rate, delay, queue and impairments.
//!
//! This file contains the path of most packets, on links with a drop-tail queue and no other
//! features. Other features of links are in separate files.

mod changed;
mod crossing;
mod fluid;
mod impaired;
mod scheduled;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use timeloom_engine::Random;
use timeloom_time::convert::high_u64;
use timeloom_time::{Duration, Instant, Virtual};

use crate::config::{Impairment, LinkConfig, QueueConfig};
use crate::fluid::FluidQueue;
use crate::packet::{NIL, Packet};
use crate::queue::{Discipline, Red};
use crate::tables::slab::{Fifo, PacketId, Slab};
use crate::tables::stats::LinkStats;

use scheduled::Scheduled;

/// One direction of a cable.
///
/// The packets on the link, waiting or in flight, are in one list in the order of their arrival.
/// Only the first one has an event in the engine's queue. The end of a packet's transmission is
/// computed when the packet is offered, since it is known when the transmitter will be free. A
/// cursor, which moves over the list once per packet, separates transmitted packets from waiting
/// ones.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Instant at which the transmitter has sent all packets, in units of 2^-64 ns, so that
    /// rounding errors of consecutive packets do not accumulate.
    pub(crate) free: u128,
    /// Transmission time of a byte in ns, as 64.64 fixed-point number.
    pub(crate) per_byte: u128,
    delay: Duration,
    flight: Fifo,
    /// First packet that was not fully transmitted when the cursor was last moved (`move_cursor`);
    /// `NIL` if there was none.
    cursor: u32,
    /// Number of packets from the cursor on.
    pub(crate) unsent: u32,
    /// Packets that travel outside of the list's order: arrival, sequence number of insertion, and
    /// packet.
    singles: BinaryHeap<Reverse<(Instant<Virtual>, u64, u32)>>,
    single_count: u64,
    pub(crate) limit: u32,
    pub(crate) overhead: u32,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) stats: LinkStats,
    /// True if the link is `enabled`, and the engine at its far end is `reachable`.
    pub(crate) up: bool,
    enabled: bool,
    reachable: bool,
    mtu: u16,
    /// True if the far end is in another engine: transmitted packets leave this world.
    crosses: bool,
}

/// Features of links that most links do not have.
#[derive(Clone, Debug)]
pub(crate) struct Extra {
    pub(crate) impairment: Impairment,
    pub(crate) random: Random,
    pub(crate) red: Option<Red>,
    /// State for links that need an event at the end of each transmission; `None` for others.
    scheduled: Option<Scheduled>,
    /// State for links with fluid flows; `None` for others.
    pub(crate) fluid: Option<Box<FluidQueue>>,
}

/// Result of offering a packet to a link; tells the caller which event to schedule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The packet is in the list, and an event for the link is already scheduled.
    Queued,
    /// The caller must schedule the arrival of the first packet at this instant.
    Arrival(Instant<Virtual>),
    /// The caller must schedule the end of a transmission at this instant.
    EndOfTransmission(Instant<Virtual>),
    /// The packet and those after it in the list leave for another engine.
    Crosses(PacketId),
    /// The packet was dropped and its storage freed.
    Dropped,
}

impl Extra {
    /// Counts a packet of `bytes` bytes as sent.
    #[inline]
    fn sent(&mut self, bytes: u32) {
        if let Some(fluid) = &mut self.fluid {
            fluid.sent(bytes);
        }
    }
}

/// Returns an instant as 64.64 fixed-point nanoseconds.
#[inline]
fn bits_of(at: Instant<Virtual>) -> u128 {
    u128::from(at.as_ns().cast_unsigned()) << 64
}

/// Returns the first whole nanosecond at or after an instant in 64.64 fixed point.
#[inline]
fn instant_after(bits: u128) -> Instant<Virtual> {
    Instant::from_ns(high_u64(bits + u128::from(u64::MAX)).cast_signed())
}

impl Link {
    pub(crate) fn new(config: &LinkConfig, random: Random) -> Self {
        let per_byte = changed::per_byte(config.rate_bps);
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
                scheduled: scheduled.then(|| Scheduled::new(Discipline::new(&config.queue))),
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
            enabled: true,
            reachable: true,
            mtu: config.mtu,
            crosses: false,
        }
    }

    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the link's MTU: the length of the longest IP packet of a real program, in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Sets whether the far end of the link can be reached. Packets in flight still arrive.
    pub(crate) fn set_reachable(&mut self, reachable: bool) {
        self.reachable = reachable;
        self.up = self.enabled && reachable;
    }

    /// Sets whether the link is enabled.
    fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
        self.up = enabled && self.reachable;
    }

    /// Returns the number of packets that wait for transmission at `now`.
    pub(crate) fn waiting(&mut self, now: Instant<Virtual>, packets: &Slab) -> u32 {
        if let Some(scheduled) = self.extra.as_ref().and_then(|e| e.scheduled.as_ref()) {
            return scheduled.len();
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

    /// Returns how many segments of `segment` bytes may be sent as one packet: as many as take no
    /// longer than `train_time`, or one if the queue or an impairment decides about each packet
    /// separately.
    pub(crate) fn train_of(&self, segment: u32, train_time: Duration) -> u32 {
        if self.extra.is_some() || self.crosses {
            return 1;
        }
        let each = self.per_byte * u128::from(segment + self.overhead);
        let time = u128::from(train_time.as_unsigned_ns()) << 64;
        u32::try_from(time / each.max(1)).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the number of packets that the queue would admit at `now`.
    pub(crate) fn room(&mut self, now: Instant<Virtual>, packets: &Slab) -> u32 {
        if self.extra.is_some() || !self.up || self.crosses {
            return u32::MAX;
        }
        self.move_cursor(now, packets);
        self.limit.saturating_add(1).saturating_sub(self.unsent)
    }

    /// Accepts a packet for transmission, or drops it.
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

    /// Reserves the transmitter for a packet; returns the end of its transmission.
    #[inline]
    fn occupy(&mut self, now: Instant<Virtual>, packet: &Packet) -> Instant<Virtual> {
        let bytes = packet.wire_bytes(self.overhead);
        let now_bits = bits_of(now);
        let start = self.free.max(now_bits);
        self.stats.waited_ns += high_u64(start - now_bits);
        self.stats.packets += u64::from(packet.segments());
        self.stats.bytes += u64::from(bytes);
        self.free = start + self.per_byte * u128::from(bytes);
        // Rounded up, so that the last bit has been sent at the returned instant.
        instant_after(self.free)
    }

    /// Returns the transmission time of a packet, rounded up.
    pub(crate) fn time_of(&self, packet: &Packet) -> Duration {
        let bits = self.per_byte * u128::from(packet.wire_bytes(self.overhead));
        Duration::from_ns(high_u64(bits + u128::from(u64::MAX)).cast_signed())
    }

    /// Appends the packet to the list, and computes its times.
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

    /// Removes and returns the packet that arrives now; also returns the instant of the next
    /// arrival.
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
