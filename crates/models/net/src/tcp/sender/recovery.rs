//! Marks of segments that arrived, loss detection, and the amount sent during recovery. The sender
//! selects the segments and the instants.

use timeloom_time::convert::{low_u32, saturating_u32};

use super::{Sender, State};
use crate::tcp::Ack;

/// Proportional rate reduction (RFC 9937): during recovery, segments are sent in proportion to
/// those that arrive. A single burst could lose the retransmissions themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Reduction {
    /// Number of segments outstanding when recovery began (RecoverFS).
    flight: u32,
    delivered: u32,
    pub(super) out: u32,
}

impl Reduction {
    /// Returns the number of segments that may be sent after `delivered` more have arrived.
    pub(super) fn allows(
        &mut self,
        delivered: u32,
        advances: bool,
        pipe: u32,
        threshold: f64,
    ) -> u32 {
        self.delivered += delivered;
        let threshold_segments = saturating_u32(threshold);
        if pipe > threshold_segments {
            let share = f64::from(self.delivered) * threshold / f64::from(self.flight.max(1));
            return saturating_u32(share.ceil()).saturating_sub(self.out);
        }
        let owed = self.delivered.saturating_sub(self.out);
        // If the cumulative acknowledgement advances, retransmissions arrive.
        let limit = if advances {
            owed.max(delivered) + 1
        } else {
            owed
        };
        limit.min(threshold_segments - pipe)
    }
}

/// DupThresh of RFC 6675.
pub(super) const THRESHOLD: u32 = 3;

impl Sender {
    pub(super) fn recount_lost(&mut self) {
        self.lost_edge = self.lost_edge.max(self.resend);
        let marked = self.board.count(self.resend, self.lost_edge);
        self.lost = low_u32(self.lost_edge - self.resend) - marked;
    }

    /// Marks the segments `from..to` as arrived.
    pub(super) fn mark(&mut self, from: u64, to: u64) {
        let (first, last) = self.block;
        // The receiver reports its newest block whole in each acknowledgement. Usually it is the
        // previous block plus one segment, and after a large loss it has thousands of segments.
        let continues = (first..=last).contains(&from);
        let new = if continues { last } else { from };
        if new >= to {
            return;
        }
        self.block = (if continues { first } else { from }, to);
        // Some of these segments counted as lost and were not retransmitted yet.
        let found = self
            .board
            .fill(new.max(self.resend), to.min(self.lost_edge));
        self.lost -= found;
        self.sacked += found + self.board.fill(new, to);
    }

    /// Marks arrived segments and detects losses: a segment is lost if [`THRESHOLD`] segments above
    /// it are marked (RFC 6675, `IsLost`).
    #[cold]
    pub(super) fn look_for_loss(&mut self, ack: Ack) {
        let (from, to) = (ack.sack_from.max(self.una), ack.sack_to.min(self.nxt));
        self.mark(from, to);
        self.highest_sacked = self.highest_sacked.max(to);
        let mut edge = self.una;
        if self.sacked >= THRESHOLD {
            let mut found = 0;
            edge = self.highest_sacked;
            while found < THRESHOLD {
                edge -= 1;
                found += u32::from(self.board.get(edge));
            }
        } else if self.duplicates >= THRESHOLD {
            edge = self.una + 1;
        }
        if edge > self.lost_edge {
            let from = self.lost_edge.max(self.resend);
            if edge > from {
                self.lost += low_u32(edge - from) - self.board.count(from, edge);
            }
            self.lost_edge = edge;
        }
        // Segments that were first sent after the retransmission have arrived before it, so the
        // retransmission is lost. RFC 6675 would wait for the timer.
        self.again = self.state == State::Recovery
            && self.resend > self.una
            && self.highest_sacked >= self.head_nxt + u64::from(THRESHOLD);
        if self.state == State::Steady && self.lost > 0 {
            self.state = State::Recovery;
            self.recover = self.nxt;
            let flight = low_u32(self.nxt - self.una);
            self.congestion.shrink(flight);
            self.reduction = Reduction {
                flight,
                ..Reduction::default()
            };
            self.force = true;
            self.answered_marks();
        }
    }

    /// Records that a loss has reduced the window, which is also the reaction to marks of the same
    /// window.
    pub(super) fn answered_marks(&mut self) {
        self.marks_from = self.nxt;
        self.tell_slowed = self.ecn;
    }
}
