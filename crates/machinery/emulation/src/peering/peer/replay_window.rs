//! Detection of datagrams that are duplicated, reordered or lost.

use super::PeerStats;

/// Bitmap of the datagrams received last (as in RFC 4303, section 3.4.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayWindow {
    /// One more than the highest number received; 0 if no datagram was received.
    next: u64,
    /// Bit k is set if the datagram `next - 1 - k` was received.
    seen: u128,
}

impl ReplayWindow {
    /// Returns true if no datagram was received.
    fn fresh(&self) -> bool {
        self.next == 0
    }

    /// Returns true if the datagram is new. Counts lost, reordered and repeated datagrams in
    /// `stats`.
    pub(super) fn admit(&mut self, number: u64, stats: &mut PeerStats) -> bool {
        if number >= self.next {
            let ahead = number - self.next;
            // Datagrams before the first one received do not count as lost.
            if !self.fresh() {
                stats.lost += ahead;
            }
            self.seen = match u32::try_from(ahead + 1) {
                Ok(shift) if shift < 128 => self.seen << shift | 1,
                _ => 1,
            };
            self.next = number + 1;
            return true;
        }
        let back = self.next - 1 - number;
        if back >= 128 {
            stats.stale += 1;
            return false;
        }
        if self.seen >> back & 1 == 1 {
            stats.repeated += 1;
            return false;
        }
        self.seen |= 1 << back;
        stats.reordered += 1;
        stats.lost = stats.lost.saturating_sub(1);
        true
    }
}
