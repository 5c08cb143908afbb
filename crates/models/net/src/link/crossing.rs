//! Links whose other end is in another engine.

use core::cmp::Reverse;

use timeloom_time::{Instant, Virtual};

use super::{Link, Offered};
use crate::tables::slab::{PacketId, Slab};

impl Link {
    /// Sets if another engine has the other end of the link.
    pub(crate) fn set_crosses(&mut self, crosses: bool) {
        self.crosses = crosses;
    }

    /// Returns true if another engine has the other end.
    pub(crate) fn crosses(&self) -> bool {
        self.crosses
    }

    /// Takes a packet whose arrival is in another engine. Nothing arrives here, so transmitted
    /// packets are cleared away when the next packet comes.
    pub(super) fn offer_crossing(
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
        // A scheduled link has nothing in flight: its packets cross at the end of their
        // transmission.
        let first = before.map_or(self.flight.first(), |last| packets.after(last));
        match first {
            Some(first) => Offered::Crosses(first),
            None => nothing_crosses(answer),
        }
    }

    /// Takes over a packet whose arrival another engine has computed. Packets in order go into the
    /// list; the result is the instant of the first arrival. `None` means that the packet must
    /// travel outside the list.
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

    /// Adds a packet that travels outside the list of this link.
    pub(crate) fn add_single(&mut self, at: Instant<Virtual>, id: PacketId) {
        self.single_count += 1;
        self.singles.push(Reverse((at, self.single_count, id.0)));
    }

    /// Returns the first packet that travels outside the list.
    pub(crate) fn take_single(&mut self) -> Option<PacketId> {
        let Reverse((_, _, id)) = self.singles.pop()?;
        Some(PacketId(id))
    }
}

/// Returns the result of a cut link if a packet waits or is lost. Not inlined: the result would be
/// copied, on the path that all other packets take, right after it was written piece by piece,
/// which stalls the processor.
#[cold]
#[inline(never)]
fn nothing_crosses(answer: Offered) -> Offered {
    answer
}
