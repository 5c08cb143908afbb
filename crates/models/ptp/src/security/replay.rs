//! Detection of reused 48-bit sequence numbers.

use timeloom_time::convert::low_u16;

/// Relation of a sequence number to the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Greater than all stored numbers.
    Newer,
    /// Less than the greatest stored number, but not stored: the message was overtaken.
    Overtaken,
    /// Stored already.
    Used,
    /// Too old for the window, so that its use is unknown.
    TooOld,
}

/// Window of the last 64 sequence numbers (as in RFC 6479 for IPsec). `sequenceId` wraps after
/// 65,536 messages; 48 bits last for 69,000 years at 128 messages per second.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow {
    newest: Option<u64>,
    seen: u64,
}

/// A number is due if it exceeds the last accepted number by at most this, provided that every
/// message is verified. Sequences of lost messages are shorter.
pub(crate) const DUE: u16 = 48;

impl ReplayWindow {
    /// Classifies a number without storing it. Only verified numbers may be stored; otherwise a
    /// forger could advance the window beyond the real sender's numbers.
    pub fn judge(&self, sequence: u64) -> Freshness {
        let Some(newest) = self.newest else {
            return Freshness::Newer;
        };
        match newest.checked_sub(sequence) {
            None => Freshness::Newer,
            Some(age @ 0..64) if self.seen >> age & 1 == 1 => Freshness::Used,
            Some(0..64) => Freshness::Overtaken,
            Some(_) => Freshness::TooOld,
        }
    }

    /// Returns the greatest stored number; `None` if none is stored.
    pub const fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Returns true if `sequence_id` is the low half of one of the next `ahead` numbers.
    pub(crate) fn is_due(&self, sequence_id: u16, ahead: u16) -> bool {
        self.newest
            .is_some_and(|newest| (1..=ahead).contains(&sequence_id.wrapping_sub(low_u16(newest))))
    }

    /// Stores `sequence`, which must have been verified.
    pub fn remember(&mut self, sequence: u64) {
        match self.newest.map(|newest| sequence.checked_sub(newest)) {
            None => (self.newest, self.seen) = (Some(sequence), 1),
            Some(Some(ahead)) => {
                self.seen = if ahead < 64 {
                    self.seen << ahead | 1
                } else {
                    1
                };
                self.newest = Some(sequence);
            }
            Some(None) => {
                let age = self.newest.unwrap_or(0) - sequence;
                if age < 64 {
                    self.seen |= 1 << age;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_overtaken_and_too_old_are_told_apart() {
        let mut window = ReplayWindow::default();
        assert_eq!(window.judge(0xffff), Freshness::Newer);
        for sequence in [0xfffe, 0x1_0001] {
            assert_eq!(window.judge(sequence), Freshness::Newer);
            window.remember(sequence);
        }
        // Numbers on both sides of the wrap of the 16 bits on the wire.
        assert_eq!(window.judge(0xfffe), Freshness::Used);
        assert_eq!(window.judge(0xffff), Freshness::Overtaken);
        window.remember(0xffff);
        assert_eq!(window.judge(0xffff), Freshness::Used);
        assert_eq!(window.judge(0x1_0001 - 64), Freshness::TooOld);
        window.remember(0x5_0000);
        assert_eq!(window.judge(0x1_0001), Freshness::TooOld);
    }
}
