//! Queues that decide about a packet when it leaves, not only when it arrives.
//!
//! Drop-tail and RED decide on arrival, so that [`crate::link::Link`] can compute all times at once
//! and needs one event per packet. The disciplines of this module need a second event, at the end
//! of each transmission.

mod codel;
mod priority;
mod red;

use timeloom_time::{Instant, Virtual};

use crate::config::QueueConfig;
use crate::tables::slab::{Fifo, PacketId, Slab};
use crate::tables::stats::LinkStats;

pub(crate) use codel::CoDel;
pub(crate) use priority::Priority;
pub(crate) use red::{Red, Verdict};

/// Queue in front of a transmitter, with its discipline.
#[derive(Clone, Debug)]
pub(crate) enum Discipline {
    DropTail { list: Fifo, packets: u32 },
    CoDel(CoDel),
    Priority(Priority),
}

impl Discipline {
    /// Returns an empty queue. The builder of a network refuses RED on a link that schedules its
    /// packets, since its average would be wrong.
    pub(crate) fn new(config: &QueueConfig) -> Self {
        match *config {
            QueueConfig::DropTail { packets } => Self::drop_tail(packets),
            QueueConfig::Red(red) => Self::drop_tail(red.packets),
            QueueConfig::CoDel {
                target,
                interval,
                packets,
                ecn,
            } => Self::CoDel(CoDel::new(target, interval, packets, ecn)),
            QueueConfig::Priority { packets } => Self::Priority(Priority::new(packets)),
        }
    }

    fn drop_tail(packets: u32) -> Self {
        Self::DropTail {
            list: Fifo::EMPTY,
            packets,
        }
    }

    /// Adds a packet; fails if there is no room.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant<Virtual>,
        id: PacketId,
        packets: &mut Slab,
    ) -> bool {
        packets[id].at = now;
        match self {
            Self::DropTail {
                list,
                packets: limit,
            } => {
                let room = list.len() < *limit;
                if room {
                    list.push(id, packets);
                }
                room
            }
            Self::CoDel(codel) => codel.enqueue(id, packets),
            Self::Priority(priority) => priority.enqueue(id, packets),
        }
    }

    /// Removes the next packet to transmit. Packets that are dropped meanwhile are freed; drops and
    /// marks are counted.
    pub(crate) fn dequeue(
        &mut self,
        now: Instant<Virtual>,
        packets: &mut Slab,
        stats: &mut LinkStats,
    ) -> Option<PacketId> {
        match self {
            Self::DropTail { list, .. } => list.pop(packets),
            Self::CoDel(codel) => codel.dequeue(now, packets, stats),
            Self::Priority(priority) => priority.dequeue(packets),
        }
    }

    /// Returns true if no packet ever waits.
    pub(crate) fn has_no_room(&self) -> bool {
        matches!(self, Self::DropTail { packets: 0, .. })
    }

    /// Returns the number of packets that wait.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::DropTail { list, .. } => list.len(),
            Self::CoDel(codel) => codel.len(),
            Self::Priority(priority) => priority.len(),
        }
    }
}
