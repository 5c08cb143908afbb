//! Receiving end of a flow: segments that have arrived, and the timing of acknowledgements.

use timeloom_time::{Duration, Instant, Virtual};

use super::board::Board;
use super::{Control, TcpConfig};

/// Content of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    /// Next expected segment.
    pub(crate) next: u64,
    /// Time stamp of the segment that is acknowledged.
    pub(crate) stamp: Instant<Virtual>,
    /// SACK block that contains the newest segment beyond `next`; empty if its ends are equal.
    pub(crate) sack_from: u64,
    pub(crate) sack_to: u64,
    /// True if a congestion mark has arrived that the sender has not confirmed yet.
    pub(crate) congested: bool,
}

/// Receiver of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) next: u64,
    window: u64,
    /// Marks of segments that arrived beyond `next`.
    board: Board,
    ahead: u64,
    block: (u64, u64),
    unanswered: u32,
    congested: bool,
    /// True if acknowledgements report exactly the marked segments (DCTCP), and not any mark since
    /// the sender reduced its window.
    is_exact: bool,
    stamp: Instant<Virtual>,
    hold: Duration,
    deadline: Instant<Virtual>,
}

impl Receiver {
    pub(crate) fn new(config: &TcpConfig) -> Self {
        Self {
            next: 0,
            window: u64::from(config.receive_window.next_power_of_two()),
            board: Board::new(config.receive_window),
            ahead: 0,
            block: (0, 0),
            unanswered: 0,
            congested: false,
            is_exact: config.control == Control::Dctcp,
            stamp: Instant::ZERO,
            hold: config.delayed_ack,
            deadline: Instant::FAR_FUTURE,
        }
    }

    /// Returns the receiver for a new connection of the same flow.
    pub(crate) fn anew(&self) -> Self {
        Self {
            next: 0,
            window: self.window,
            board: Board::new(u32::try_from(self.window).unwrap_or(u32::MAX)),
            ahead: 0,
            block: (0, 0),
            unanswered: 0,
            congested: false,
            is_exact: self.is_exact,
            stamp: Instant::ZERO,
            hold: self.hold,
            deadline: Instant::FAR_FUTURE,
        }
    }

    /// Returns the instant at which a delayed acknowledgement must be sent.
    #[inline]
    pub(crate) fn next_wake(&self) -> Instant<Virtual> {
        self.deadline
    }

    /// Records that the arriving segment is marked, or that its sender has reduced its window (RFC
    /// 3168, section 6.1.3). Must be called before the segment is handled. If marks are reported
    /// exactly, and the mark differs from that of earlier segments, returns an acknowledgement of
    /// these (RFC 8257, section 3.2).
    pub(crate) fn note_congestion(&mut self, marked: bool, slowed: bool) -> Option<Ack> {
        if !self.is_exact {
            self.congested = marked || self.congested && !slowed;
            return None;
        }
        let differs = marked != self.congested && self.unanswered > 0;
        let before = differs.then(|| self.answer());
        self.congested = marked;
        before
    }

    /// Handles a segment; returns an acknowledgement if it must be sent at once.
    #[inline]
    pub(crate) fn handle_segment(
        &mut self,
        now: Instant<Virtual>,
        segment: u64,
        stamp: Instant<Virtual>,
    ) -> Option<Ack> {
        if segment != self.next || self.ahead > 0 {
            return self.out_of_order(segment, stamp);
        }
        self.next += 1;
        self.unanswered += 1;
        if self.unanswered == 1 {
            // The time stamp of the earliest unacknowledged segment is echoed (RFC 7323, section
            // 4.3).
            self.stamp = stamp;
        }
        if self.unanswered >= 2 {
            return Some(self.answer());
        }
        self.deadline = now + self.hold;
        None
    }

    /// Handles a segment that is not the next expected one. Gaps, and segments that fill them, are
    /// acknowledged at once (RFC 5681, section 4.2).
    #[cold]
    fn out_of_order(&mut self, segment: u64, stamp: Instant<Virtual>) -> Option<Ack> {
        if segment == self.next {
            let filled = self.board.first_clear(segment + 1, segment + self.window);
            self.board.erase(segment + 1, filled);
            self.ahead -= filled - segment - 1;
            self.next = filled;
            self.stamp = stamp;
        } else if segment > self.next && segment - self.next < self.window {
            if self.board.set(segment) {
                self.ahead += 1;
            }
            self.block = self.block_around(segment);
            if self.unanswered == 0 {
                self.stamp = stamp;
            }
        }
        Some(self.answer())
    }

    fn block_around(&self, segment: u64) -> (u64, u64) {
        let to = self.board.first_clear(segment, self.next + self.window);
        let (before, after) = self.block;
        // The newest segment usually extends the last block.
        let mut from = if after == segment && before > self.next {
            before
        } else {
            segment
        };
        while from > self.next + 1 && self.board.get(from - 1) {
            from -= 1;
        }
        (from, to)
    }

    /// Returns the delayed acknowledgement if its delay has expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant<Virtual>) -> Option<Ack> {
        (now >= self.deadline && self.unanswered > 0).then(|| self.answer())
    }

    #[inline]
    fn answer(&mut self) -> Ack {
        self.unanswered = 0;
        self.deadline = Instant::FAR_FUTURE;
        let (from, to) = self.block;
        let news = self.ahead > 0 && from > self.next;
        let (sack_from, sack_to) = if news { (from, to) } else { (0, 0) };
        Ack {
            next: self.next,
            stamp: self.stamp,
            sack_from,
            sack_to,
            congested: self.congested,
        }
    }
}
