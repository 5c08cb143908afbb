//! Retransmissions by a host's kernel that are in flight, and the next ones that may follow.

use std::collections::VecDeque;

use super::scoreboard::{Scoreboard, is_within};
use super::segment::before;

/// Retransmissions by the kernel that the peer has not acknowledged, in the order of their sending.
#[derive(Debug, Default)]
pub(super) struct Retransmissions {
    sent: VecDeque<Retransmission>,
}

#[derive(Debug)]
struct Retransmission {
    /// First sequence number, and the one after the last.
    numbers: (u32, u32),
    /// Next new sequence number of the kernel at the time.
    next: u32,
    /// True if the peer has acknowledged a later retransmission.
    is_overtaken: bool,
}

impl Retransmissions {
    /// Records a retransmission, when the next new sequence number is `next`.
    pub(super) fn add(&mut self, numbers: (u32, u32), next: u32) {
        self.sent.retain(|it| it.numbers != numbers);
        if self.sent.len() == MOST {
            // The kernel is then taken to repeat it with each acknowledgement.
            self.sent.pop_front();
        }
        self.sent.push_back(Retransmission {
            numbers,
            next,
            is_overtaken: false,
        });
    }

    /// Removes retransmissions that `ack` acknowledges. Returns true if there were any.
    pub(super) fn acknowledge(&mut self, ack: u32) -> bool {
        let is_acknowledged = |it: &Retransmission| !before(ack, it.numbers.1);
        let Some(last) = self.sent.iter().rposition(is_acknowledged) else {
            return false;
        };
        for earlier in self.sent.range_mut(..last) {
            earlier.is_overtaken = true;
        }
        self.sent.retain(|it| !is_acknowledged(it));
        true
    }

    /// Returns true if the kernel may retransmit a segment, when the peer has received all before
    /// `una` and what is on `board`: a missing one that was not retransmitted, or one whose
    /// retransmission is lost, which the kernel takes for lost if a segment that was sent later has
    /// arrived (RFC 8985).
    pub(super) fn may_follow(&self, una: u32, board: &Scoreboard) -> bool {
        let Some(end) = board.end() else {
            return false;
        };
        let mut missing = board.missing_from(una);
        while before(missing, end) {
            let place = self.sent.iter();
            let place = place
                .enumerate()
                .find(|(_, it)| is_within(it.numbers, missing));
            let Some((place, retransmission)) = place else {
                return true;
            };
            let mut later = self.sent.range(place + 1..);
            if retransmission.is_overtaken
                || before(retransmission.next, end)
                || later.any(|it| board.has(it.numbers.0))
            {
                return true;
            }
            missing = board.missing_from(retransmission.numbers.1);
        }
        false
    }
}

/// Maximum number of retransmissions that are kept.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn board(ranges: &[(u32, u32)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        ranges.iter().for_each(|&(from, to)| board.add(from, to));
        board
    }

    #[test]
    fn each_gap_is_retransmitted_once() {
        let mut all = Retransmissions::default();
        let gaps = board(&[(100, 200), (300, 400)]);
        assert!(!all.may_follow(0, &board(&[])));
        assert!(all.may_follow(0, &gaps));
        all.add((0, 100), 400);
        assert!(all.may_follow(0, &gaps), "the second gap");
        all.add((200, 300), 400);
        assert!(!all.may_follow(0, &gaps));
        assert!(all.acknowledge(200), "the first");
        assert!(!all.may_follow(200, &board(&[(300, 400)])));
        assert!(!all.acknowledge(200));
    }

    #[test]
    fn a_lost_retransmission_follows_after_a_later_segment() {
        let mut all = Retransmissions::default();
        all.add((0, 100), 300);
        assert!(!all.may_follow(0, &board(&[(100, 300)])));
        assert!(all.may_follow(0, &board(&[(100, 400)])), "a new one");
        all.add((200, 300), 300);
        assert!(all.may_follow(0, &board(&[(100, 300)])), "a second one");
        // The kernel repeats the first gap. By the acknowledgement of this, the second gap was lost.
        all.add((0, 100), 400);
        assert!(all.acknowledge(200));
        assert!(all.may_follow(200, &board(&[(300, 400)])));
    }

    #[test]
    fn sequence_numbers_may_wrap() {
        let start = u32::MAX - 50;
        let at = |offset: u32| start.wrapping_add(offset);
        let mut all = Retransmissions::default();
        let gap = board(&[(at(100), at(200))]);
        assert!(all.may_follow(at(0), &gap));
        all.add((at(0), at(100)), at(200));
        assert!(!all.may_follow(at(0), &gap));
    }
}
