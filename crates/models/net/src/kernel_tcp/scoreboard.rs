//! Data that a peer has received beyond a gap, according to its acknowledgements (SACK, RFC 2018).

use super::segment::before;

/// Ranges of sequence numbers that the peer has received beyond a gap.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// First number of each range, and the number after its last. Ascending; no two ranges touch.
    ranges: Vec<(u32, u32)>,
}

impl Scoreboard {
    /// Adds the range from `from` to before `to`.
    pub(super) fn add(&mut self, mut from: u32, mut to: u32) {
        self.ranges.retain(|&(other_from, other_to)| {
            let is_apart = before(other_to, from) || before(to, other_from);
            if !is_apart {
                from = if before(other_from, from) {
                    other_from
                } else {
                    from
                };
                to = if before(to, other_to) { other_to } else { to };
            }
            is_apart
        });
        let place = self.ranges.iter().position(|&(other, _)| before(to, other));
        let place = place.unwrap_or(self.ranges.len());
        self.ranges.insert(place, (from, to));
    }

    /// Removes what precedes `ack`, which the peer has acknowledged without a gap.
    pub(super) fn acknowledge(&mut self, ack: u32) {
        self.ranges.retain(|&(_, to)| before(ack, to));
    }

    /// Returns true if the peer has received sequence number `seq`.
    pub(super) fn has(&self, seq: u32) -> bool {
        self.missing_from(seq) != seq
    }

    /// Returns the first sequence number from `seq` on that the peer has not received.
    pub(super) fn missing_from(&self, seq: u32) -> u32 {
        let range = self.ranges.iter().find(|range| is_within(**range, seq));
        range.map_or(seq, |&(_, to)| to)
    }

    /// Returns the sequence number after the last that the peer has received beyond a gap; `None`
    /// without a gap.
    pub(super) fn end(&self) -> Option<u32> {
        self.ranges.last().map(|&(_, to)| to)
    }

    /// Returns true if there is no gap.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Returns true if `seq` lies within a range.
pub(super) fn is_within((from, to): (u32, u32), seq: u32) -> bool {
    !before(seq, from) && before(seq, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_or_touch_are_joined_also_across_a_wrap() {
        let start = u32::MAX - 149;
        let at = |offset: u32| start.wrapping_add(offset);
        let mut board = Scoreboard::default();
        for (from, to) in [(300, 400), (100, 200), (200, 250), (350, 420)] {
            board.add(at(from), at(to));
        }
        assert_eq!(board.ranges, [(at(100), at(250)), (at(300), at(420))]);
        let missing = |offset| board.missing_from(at(offset)).wrapping_sub(start);
        assert_eq!(
            [0, 100, 249, 250, 300, 420].map(missing),
            [0, 250, 250, 250, 420, 420]
        );
        board.add(at(250), at(300));
        assert_eq!(board.ranges, [(at(100), at(420))]);
        board.acknowledge(at(420));
        assert!(board.is_empty());
    }
}
