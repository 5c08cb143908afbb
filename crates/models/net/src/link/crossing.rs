//! Links of which another engine has the other end.

use core::cmp::Reverse;

use timeloom_time::{Instant, Virtual};

use super::{Link, Offered};
use crate::tables::slab::{PacketId, Slab};

impl Link {
    /// Makes this the end of a link of which another engine has the other.
    pub(crate) fn set_crosses(&mut self, crosses: bool) {
        self.crosses = crosses;
    }

    /// Whether another engine has the other end.
    pub(crate) fn crosses(&self) -> bool {
        self.crosses
    }

    /// Takes a packet of which the arrival is another engine's. Nothing arrives here, so
    /// what has been transmitted is cleared away when the next packet comes.
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
}

/// What a cut link answers when a packet waits or is lost. Not inlined: the answer
/// would be copied, on the way that all other packets take, right after it was
/// written piece by piece, which makes the processor wait.
#[cold]
#[inline(never)]
fn nothing_crosses(answer: Offered) -> Offered {
    answer
}
