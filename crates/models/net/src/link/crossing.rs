//! Links whose far end is in another engine (cut links).

use core::cmp::Reverse;

use timeloom_time::{Instant, Virtual};

use super::{Link, Offered};
use crate::tables::slab::{PacketId, Slab};

impl Link {
    /// Sets whether the far end of the link is in another engine.
    pub(crate) fn set_crosses(&mut self, crosses: bool) {
        self.crosses = crosses;
    }

    /// Returns true if the far end is in another engine.
    pub(crate) fn crosses(&self) -> bool {
        self.crosses
    }

    /// Offers a packet to a link whose far end is in another engine. Nothing arrives here, so
    /// transmitted packets are removed when the next packet is offered.
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
        // A scheduled link has no packets in flight: its packets cross when their transmission
        // ends.
        let first = before.map_or(self.flight.first(), |last| packets.after(last));
        match first {
            Some(first) => Offered::Crosses(first),
            None => nothing_crosses(answer),
        }
    }

    /// Takes over a packet whose arrival time another engine has computed. A packet in order is
    /// appended to the list; the result then contains the first arrival. Returns `None` if the
    /// packet must travel outside of the list.
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

    /// Adds a packet that travels outside of the link's list and arrives at `at`.
    pub(crate) fn add_single(&mut self, at: Instant<Virtual>, id: PacketId) {
        self.single_count += 1;
        self.singles.push(Reverse((at, self.single_count, id.0)));
    }

    /// Removes and returns the first packet that travels outside of the list.
    pub(crate) fn take_single(&mut self) -> Option<PacketId> {
        let Reverse((_, _, id)) = self.singles.pop()?;
        Some(PacketId(id))
    }
}

/// Returns the result for a packet on a cut link that waits or is lost. The function is not
/// inlined: otherwise the result would be copied, on the path of all other packets, right after it
/// was written in pieces, which stalls the processor.
#[cold]
#[inline(never)]
fn nothing_crosses(answer: Offered) -> Offered {
    answer
}
