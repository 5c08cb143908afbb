//! ARP and neighbour cache of an interface on a LAN (RFC 826; RFC 4861, section 5.1), and packets
//! that wait for resolution.

use timeloom_time::{Duration, Instant, Virtual};

use crate::packet::PortId;
use crate::tables::address::Family;
use crate::tables::slab::{Fifo, PacketId, Slab};

/// Neighbouring interface, together with the protocol that resolves it: ARP and neighbour discovery
/// have separate entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Neighbour(u32);

impl Neighbour {
    #[inline]
    pub(crate) fn new(interface: PortId, family: Family) -> Self {
        Self(interface.0 << 1 | family as u32)
    }

    pub(crate) fn interface(self) -> PortId {
        PortId(self.0 >> 1)
    }

    pub(crate) fn family(self) -> Family {
        Family::BOTH[self.0 as usize & 1]
    }
}

/// ARP and neighbour cache of one interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArpCache {
    /// Known neighbours, sorted.
    known: Vec<Known>,
    asked: Vec<Question>,
    /// True if the timer for repeated requests is running.
    ticking: bool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    neighbour: Neighbour,
    mac: PortId,
    until: Instant<Virtual>,
}

#[derive(Clone, Debug)]
struct Question {
    neighbour: Neighbour,
    tries: u32,
    waiting: Fifo,
}

/// State of a packet whose neighbour's MAC address is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// The packet waits, and the caller must send a request. If `start_timer` is true, the caller
    /// must also start the timer of [`ArpCache::retry`].
    Ask { start_timer: bool },
    /// The packet waits for the answer to an earlier request.
    Waits,
    /// The packet was not queued, because too many wait already.
    Full,
}

/// Actions after requests that were not answered in time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Neighbours for which the caller must repeat the request.
    pub(crate) again: Vec<Neighbour>,
    /// Packets for neighbours that did not answer the last request; the caller must drop them.
    pub(crate) lost: Vec<PacketId>,
}

/// Lifetime of an answer. Linux's base reachable time is 30 s for both protocols; RFC 1122, section
/// 2.3.2.1, recommends a time of the order of a minute.
const BELIEVED: Duration = Duration::from_s(60);
const TRIES: u32 = 3;
/// Maximum number of packets that wait for one neighbour; RFC 1122 requires at least one.
const WAITING: u32 = 64;

impl ArpCache {
    /// Returns the MAC address of a neighbour; `None` if it is unknown or its lifetime has passed.
    #[inline]
    pub(crate) fn lookup(&self, neighbour: Neighbour, now: Instant<Virtual>) -> Option<PortId> {
        let index = self.known.binary_search_by_key(&neighbour, |n| n.neighbour);
        let known = &self.known[index.ok()?];
        (known.until >= now).then_some(known.mac)
    }

    /// Stores the MAC address of a neighbour; returns the packets that waited for it.
    pub(crate) fn learn(
        &mut self,
        neighbour: Neighbour,
        mac: PortId,
        now: Instant<Virtual>,
    ) -> Fifo {
        let known = Known {
            neighbour,
            mac,
            until: now + BELIEVED,
        };
        match self.known.binary_search_by_key(&neighbour, |n| n.neighbour) {
            Ok(index) => self.known[index] = known,
            Err(index) => self.known.insert(index, known),
        }
        let asked = self.asked.iter().position(|q| q.neighbour == neighbour);
        asked.map_or(Fifo::EMPTY, |asked| self.asked.swap_remove(asked).waiting)
    }

    /// Queues a packet until the MAC address of a neighbour is known.
    pub(crate) fn enqueue(
        &mut self,
        neighbour: Neighbour,
        id: PacketId,
        packets: &mut Slab,
    ) -> Unresolved {
        if let Some(question) = self.asked.iter_mut().find(|q| q.neighbour == neighbour) {
            if question.waiting.len() == WAITING {
                return Unresolved::Full;
            }
            question.waiting.push(id, packets);
            return Unresolved::Waits;
        }
        let mut waiting = Fifo::EMPTY;
        waiting.push(id, packets);
        self.asked.push(Question {
            neighbour,
            tries: 1,
            waiting,
        });
        let start_timer = !core::mem::replace(&mut self.ticking, true);
        Unresolved::Ask { start_timer }
    }

    /// Handles the timer, one second after requests were sent. The timer must be started again if
    /// any request is repeated.
    pub(crate) fn retry(&mut self, packets: &Slab) -> Retry {
        let Retry {
            mut again,
            mut lost,
        } = Retry::default();
        self.asked.retain_mut(|question| {
            question.tries += 1;
            if question.tries <= TRIES {
                again.push(question.neighbour);
                return true;
            }
            lost.extend(core::iter::from_fn(|| question.waiting.pop(packets)));
            false
        });
        self.ticking = !again.is_empty();
        Retry { again, lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Packet, PacketKind};

    const NEIGHBOUR: Neighbour = Neighbour(7 << 1);
    const MAC: PortId = PortId(9);

    fn v4(port: u32) -> Neighbour {
        Neighbour::new(PortId(port), Family::V4)
    }

    fn at(s: i64) -> Instant<Virtual> {
        Instant::ZERO + Duration::from_s(s)
    }

    fn packet(packets: &mut Slab) -> PacketId {
        packets.insert(Packet::new(
            PacketKind::Udp,
            PortId(1),
            NEIGHBOUR.interface(),
            0,
            100,
        ))
    }

    #[test]
    fn an_answer_is_believed_for_a_minute() {
        let mut cache = ArpCache::default();
        assert_eq!(cache.lookup(NEIGHBOUR, at(0)), None);
        for other in [8, 7, 3] {
            assert_eq!(cache.learn(v4(other), MAC, at(0)).len(), 0);
        }
        assert_eq!(cache.lookup(NEIGHBOUR, at(60)), Some(MAC));
        assert_eq!(cache.lookup(NEIGHBOUR, at(61)), None);
        cache.learn(NEIGHBOUR, PortId(10), at(61));
        assert_eq!(cache.lookup(NEIGHBOUR, at(61)), Some(PortId(10)));
        let by_other = Neighbour::new(PortId(7), Family::V6);
        assert_eq!(cache.lookup(by_other, at(61)), None, "each asks for itself");
        assert_eq!(by_other.family(), Family::V6);
        assert_eq!(by_other.interface(), NEIGHBOUR.interface());
    }

    #[test]
    fn waiting_packets_leave_in_order_on_the_answer() {
        let (mut cache, mut packets) = (ArpCache::default(), Slab::new());
        let ids: Vec<_> = (0..WAITING).map(|_| packet(&mut packets)).collect();
        let ask = cache.enqueue(NEIGHBOUR, ids[0], &mut packets);
        assert_eq!(ask, Unresolved::Ask { start_timer: true });
        for id in &ids[1..] {
            assert_eq!(
                cache.enqueue(NEIGHBOUR, *id, &mut packets),
                Unresolved::Waits
            );
        }
        let one_more = packet(&mut packets);
        let full = cache.enqueue(NEIGHBOUR, one_more, &mut packets);
        assert_eq!(full, Unresolved::Full);
        let other = cache.enqueue(v4(8), one_more, &mut packets);
        assert_eq!(other, Unresolved::Ask { start_timer: false });

        let mut waited = cache.learn(NEIGHBOUR, MAC, at(0));
        let out: Vec<_> = core::iter::from_fn(|| waited.pop(&packets)).collect();
        assert_eq!(out, ids);
    }

    #[test]
    fn a_neighbour_is_asked_three_times_and_its_packets_are_lost() {
        let (mut cache, mut packets) = (ArpCache::default(), Slab::new());
        let id = packet(&mut packets);
        cache.enqueue(NEIGHBOUR, id, &mut packets);
        for _ in 0..2 {
            let retry = cache.retry(&packets);
            assert_eq!((retry.again, retry.lost), (vec![NEIGHBOUR], vec![]));
        }
        let retry = cache.retry(&packets);
        assert_eq!((retry.again, retry.lost), (vec![], vec![id]));
        let ask = cache.enqueue(NEIGHBOUR, id, &mut packets);
        assert_eq!(ask, Unresolved::Ask { start_timer: true }, "it had stopped");
    }
}
