//! What an interface on a LAN knows about its neighbours (RFC 826).

use timeloom_time::{Duration, Instant, Virtual};

use crate::packet::PortId;
use crate::tables::slab::Fifo;

/// What an interface on a LAN knows about its neighbours.
#[derive(Debug, Default)]
pub(crate) struct Arp {
    /// Sorted by neighbour.
    pub(crate) known: Vec<Neighbour>,
    pub(crate) asked: Vec<Question>,
    /// Whether the timer that repeats questions runs.
    pub(crate) ticking: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    pub(crate) interface: PortId,
    pub(crate) mac: PortId,
    pub(crate) until: Instant<Virtual>,
}

#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) interface: PortId,
    pub(crate) tries: u32,
    pub(crate) waiting: Fifo,
}

/// How long an answer is believed; Linux's base reachable time is 30 s, and
/// RFC 1122 section 2.3.2.1 speaks of the order of a minute.
pub(crate) const BELIEVED: Duration = Duration::from_s(60);

pub(crate) const TRIES: u32 = 3;

/// Packets kept per neighbour while asking; RFC 1122 demands at least one.
pub(crate) const WAITING: u32 = 64;

impl Arp {
    pub(crate) fn find(&self, interface: PortId, now: Instant<Virtual>) -> Option<PortId> {
        let place = self.known.binary_search_by_key(&interface, |n| n.interface);
        let neighbour = &self.known[place.ok()?];
        (neighbour.until >= now).then_some(neighbour.mac)
    }

    pub(crate) fn learn(&mut self, interface: PortId, mac: PortId, now: Instant<Virtual>) {
        let neighbour = Neighbour {
            interface,
            mac,
            until: now + BELIEVED,
        };
        match self.known.binary_search_by_key(&interface, |n| n.interface) {
            Ok(place) => self.known[place] = neighbour,
            Err(place) => self.known.insert(place, neighbour),
        }
    }
}
