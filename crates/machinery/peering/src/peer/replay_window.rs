//! Detection of datagrams that are duplicated, reordered or lost.

use super::PeerStats;

/// Bitmap of the last datagrams received (as RFC 4303, section 3.4.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayWindow {
    /// The number after the highest received.
    next: u64,
    /// Bit k is set if `next - 1 - k` was received.
    seen: u128,
}

impl ReplayWindow {
    /// Returns true if no datagram was received.
    fn fresh(&self) -> bool {
        self.next == 0
    }

    /// Returns true if the datagram is new; counts losses and reordering.
    pub(super) fn admit(&mut self, number: u64, stats: &mut PeerStats) -> bool {
        if number >= self.next {
            let ahead = number - self.next;
            // Datagrams before the first one do not count as lost.
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
