//! Sending end of a flow: selects segments, and the instants to send them. `recovery` detects
//! losses.

mod recovery;

use timeloom_time::convert::low_u32;
use timeloom_time::{Duration, Instant, Virtual};

use super::bbr::Delivery;
use super::board::Board;
use super::congestion::{Congestion, Progress};
use super::rtt::RoundTrip;
use super::{Ack, Control, TcpConfig};
use crate::packet::Packet;
use recovery::{Reduction, THRESHOLD};

/// Packet that the sender requests to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transmit {
    Syn,
    Segment(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The opening segment must be sent, for the first time or again.
    Opening,
    /// The opening segment has been sent, and its answer has not arrived.
    Opened,
    Steady,
    /// Losses of segments up to `recover` are being repaired (RFC 6675).
    Recovery,
    /// Segments sent before a timeout are being repaired, in slow start.
    AfterTimeout,
}

/// Sender of one flow.
///
/// The number of segments in flight (the pipe of RFC 6675) is maintained by counting: outstanding
/// segments, minus those known to have arrived, minus those known to be lost and not yet
/// retransmitted.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    state: State,
    /// First unacknowledged segment.
    una: u64,
    /// First segment that has not been sent yet.
    nxt: u64,
    /// First segment that will never be sent: the length of the flow.
    end: u64,
    receive_window: u32,
    initial_window: u32,
    congestion: Congestion,
    round_trip: RoundTrip,
    duplicates: u32,
    recover: u64,
    /// Marks of segments that arrived beyond `una`.
    board: Board,
    sacked: u32,
    highest_sacked: u64,
    /// The last block that was marked; its part from `una` on is still marked.
    block: (u64, u64),
    /// Segments below this number without a mark count as lost.
    lost_edge: u64,
    /// Number from which on the next lost segment to retransmit is searched.
    resend: u64,
    /// Number of segments in `resend..lost_edge` without a mark.
    lost: u32,
    /// True if the next retransmission is sent whatever the pipe (RFC 6675, section 5, step 4.3).
    force: bool,
    /// `nxt` when the first outstanding segment was retransmitted, or when it became the first,
    /// whichever is later.
    head_nxt: u64,
    /// True if the retransmission of the first outstanding segment is lost too.
    again: bool,
    reduction: Reduction,
    ecn: bool,
    /// Acknowledgements beyond this segment report new marks, since the segment has informed the
    /// receiver of the reaction to earlier ones.
    marks_from: u64,
    /// True if the next new segment must inform the receiver that the window has been reduced.
    tell_slowed: bool,
    deadline: Instant<Virtual>,
    /// True if a segment may be sent and pacing delays it.
    is_paced: bool,
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    pub(crate) slowed_by_marks: u64,
    pub(crate) finished_at: Option<Instant<Virtual>>,
}

impl Sender {
    pub(crate) fn new(config: &TcpConfig) -> Self {
        Self {
            state: State::Opening,
            una: 0,
            nxt: 0,
            end: config.segments.unwrap_or(u64::MAX),
            receive_window: config.receive_window.next_power_of_two(),
            initial_window: config.initial_window,
            congestion: Congestion::new(config.control, config.initial_window),
            round_trip: RoundTrip::new(config.min_rto),
            duplicates: 0,
            recover: 0,
            board: Board::new(config.receive_window),
            sacked: 0,
            highest_sacked: 0,
            block: (0, 0),
            lost_edge: 0,
            resend: 0,
            lost: 0,
            force: false,
            head_nxt: 0,
            again: false,
            reduction: Reduction::default(),
            ecn: config.ecn || config.control == Control::Dctcp,
            marks_from: 0,
            tell_slowed: false,
            deadline: Instant::FAR_FUTURE,
            is_paced: false,
            retransmitted: 0,
            timeouts: 0,
            slowed_by_marks: 0,
            finished_at: None,
        }
    }

    /// Returns the deadline at which [`Sender::handle_timeout`] must be called. The deadline may
    /// later move away, so the caller must check it again.
    #[inline]
    pub(crate) fn next_wake(&self) -> Instant<Virtual> {
        match &self.congestion.bbr {
            Some(bbr) if self.is_paced => self.deadline.min(bbr.next_send),
            _ => self.deadline,
        }
    }

    /// Returns the sender for a new connection of the same flow, not opened yet. Counters continue.
    pub(crate) fn anew(&self) -> Self {
        let config = TcpConfig {
            control: self.congestion.control(),
            segments: (!self.is_endless()).then_some(self.end),
            initial_window: self.initial_window,
            receive_window: self.receive_window,
            min_rto: self.round_trip.floor(),
            ecn: self.ecn,
            ..TcpConfig::default()
        };
        Self {
            retransmitted: self.retransmitted,
            timeouts: self.timeouts,
            slowed_by_marks: self.slowed_by_marks,
            ..Self::new(&config)
        }
    }

    /// Returns true if the flow is endless.
    pub(crate) fn is_endless(&self) -> bool {
        self.end == u64::MAX
    }

    /// Returns the first unacknowledged segment.
    #[inline]
    pub(crate) fn first_unacknowledged(&self) -> u64 {
        self.una
    }

    pub(crate) fn window(&self) -> f64 {
        self.congestion.window
    }

    pub(crate) fn smoothed_rtt(&self) -> Duration {
        self.round_trip.smoothed()
    }

    #[inline]
    fn pipe(&self) -> u32 {
        low_u32(self.nxt - self.una) - self.sacked - self.lost
    }

    /// Returns the next packet to send now; `None` if there is none.
    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant<Virtual>) -> Option<Transmit> {
        match self.state {
            State::Opening => {
                self.state = State::Opened;
                self.deadline = now + self.round_trip.timeout();
                return Some(Transmit::Syn);
            }
            State::Opened => return None,
            _ => {}
        }
        if self.congestion.bbr.is_some() {
            return self.choose_paced(now);
        }
        self.choose(now).map(Transmit::Segment)
    }

    /// Returns the segment that window and pacing permit to be sent now.
    #[cold]
    fn choose_paced(&mut self, now: Instant<Virtual>) -> Option<Transmit> {
        let window = self.congestion.window;
        let may = self.force || self.again || f64::from(self.pipe() + 1) <= window;
        let next = self
            .congestion
            .bbr
            .as_ref()
            .map_or(now, |bbr| bbr.next_send);
        self.is_paced = may && next > now;
        if self.is_paced {
            return None;
        }
        let pipe = self.pipe();
        let segment = self.choose(now)?;
        if let Some(bbr) = &mut self.congestion.bbr {
            bbr.note_sent(now, pipe);
        }
        Some(Transmit::Segment(segment))
    }

    /// Returns the segment that the window permits to be sent.
    #[inline]
    fn choose(&mut self, now: Instant<Virtual>) -> Option<u64> {
        if !self.force && !self.again && f64::from(self.pipe() + 1) > self.congestion.window {
            return None;
        }
        self.reduction.out += 1;
        if self.again {
            self.again = false;
            self.head_nxt = self.nxt;
            self.retransmitted += 1;
            self.arm(now);
            return Some(self.una);
        }
        if self.lost > 0 {
            let segment = self.board.first_clear(self.resend, self.lost_edge);
            if segment == self.una {
                self.head_nxt = self.nxt;
            }
            self.resend = segment + 1;
            self.lost -= 1;
            self.force = false;
            self.retransmitted += 1;
            self.arm(now);
            return Some(segment);
        }
        self.force = false;
        if self.nxt == self.end || self.nxt - self.una >= u64::from(self.receive_window) {
            self.reduction.out -= 1;
            return None;
        }
        self.nxt += 1;
        self.arm(now);
        Some(self.nxt - 1)
    }

    /// Returns the type of service and the flags for the segment that was just returned. Only new
    /// segments may be marked (RFC 3168, section 6.1.5).
    #[inline]
    pub(crate) fn congestion_bits(&mut self, segment: u64) -> (u8, u8) {
        if !self.ecn || segment + 1 != self.nxt {
            return (0, 0);
        }
        let slowed = core::mem::take(&mut self.tell_slowed);
        (Packet::ECN_CAPABLE, if slowed { Packet::CWR } else { 0 })
    }

    /// Reacts to an acknowledgement that reports a mark as to a loss, but without a retransmission
    /// (RFC 3168, section 6.1.2).
    #[cold]
    fn slow_down(&mut self, next: u64) {
        if self.state != State::Steady || next <= self.marks_from {
            return;
        }
        self.congestion
            .shrink_by_marks(low_u32(self.nxt - self.una));
        self.marks_from = self.nxt;
        self.tell_slowed = true;
        self.slowed_by_marks += 1;
    }

    fn arm(&mut self, now: Instant<Virtual>) {
        if self.deadline == Instant::FAR_FUTURE {
            self.deadline = now + self.round_trip.timeout();
        }
    }

    /// Handles the answer to the opening segment.
    pub(crate) fn handle_opened(&mut self, now: Instant<Virtual>, stamp: Instant<Virtual>) {
        if self.state == State::Opened {
            self.state = State::Steady;
            self.round_trip.sample(now - stamp);
            if let Some(bbr) = &mut self.congestion.bbr {
                bbr.handle_opened(now, now - stamp);
            }
            self.deadline = Instant::FAR_FUTURE;
        }
    }

    /// Handles an acknowledgement. One that is beyond the sent segments is invalid and ignored.
    #[inline]
    pub(crate) fn handle_ack(&mut self, now: Instant<Virtual>, ack: Ack) {
        if ack.next > self.nxt || ack.next < self.una {
            return;
        }
        if let Some(dctcp) = &mut self.congestion.dctcp {
            dctcp.handle_ack(ack.next - self.una, ack.congested, ack.next, self.nxt);
        }
        if self.ecn && ack.congested {
            self.slow_down(ack.next);
        }
        let lost = self.lost;
        let before = self.una + u64::from(self.sacked);
        let advances = ack.next > self.una;
        if advances {
            self.advance(now, ack);
        } else if self.nxt > self.una {
            self.duplicates += 1;
        }
        if ack.sack_from < ack.sack_to || self.sacked > 0 || self.duplicates >= THRESHOLD {
            self.look_for_loss(ack);
        }
        if self.congestion.bbr.is_some() {
            let found = self.lost.saturating_sub(lost);
            return self.tell_bbr(now, ack, found, advances);
        }
        if self.state == State::Recovery {
            let delivered = low_u32((self.una + u64::from(self.sacked)).saturating_sub(before));
            let pipe = self.pipe();
            let threshold = self.congestion.threshold();
            let send = self.reduction.allows(delivered, advances, pipe, threshold);
            self.congestion.window = f64::from(pipe + send);
        }
    }

    /// Passes the information in an acknowledgement to BBR, and adopts BBR's window.
    #[cold]
    fn tell_bbr(&mut self, now: Instant<Virtual>, ack: Ack, lost: u32, advances: bool) {
        let delivery = Delivery {
            stamp: ack.stamp,
            delivered: self.una + u64::from(self.sacked),
            pipe: self.pipe(),
            sample: advances.then(|| now - ack.stamp),
            lost,
            repairs: self.state != State::Steady,
        };
        if let Some(bbr) = &mut self.congestion.bbr {
            bbr.handle_ack(now, &delivery);
            self.congestion.window = bbr.window;
        }
    }

    #[inline]
    fn advance(&mut self, now: Instant<Virtual>, ack: Ack) {
        let flight = low_u32(self.nxt - self.una);
        let acked = low_u32(ack.next - self.una);
        if self.sacked > 0 {
            self.sacked -= self.board.erase(self.una, ack.next);
        }
        self.una = ack.next;
        self.duplicates = 0;
        self.head_nxt = self.nxt;
        self.again = false;
        if self.resend < self.una {
            self.resend = self.una;
            self.recount_lost();
        }
        let sample = now - ack.stamp;
        self.round_trip.sample(sample);
        match self.state {
            State::Recovery if self.una >= self.recover => {
                self.state = State::Steady;
                if self.congestion.bbr.is_none() {
                    self.congestion.window = self.congestion.threshold();
                }
            }
            State::AfterTimeout if self.una >= self.recover => self.state = State::Steady,
            State::Recovery => {}
            // An acknowledgement that reports congestion does not let the window grow. After a
            // timeout the reaction has already happened, and only new segments can inform the
            // receiver.
            State::Steady if ack.congested && self.ecn => {}
            _ => {
                let progress = Progress {
                    acked,
                    flight,
                    una: self.una,
                    nxt: self.nxt,
                    sample,
                    smoothed: self.round_trip.smoothed(),
                };
                self.congestion.grow(now, &progress);
            }
        }
        self.deadline = if self.nxt > self.una {
            now + self.round_trip.timeout()
        } else {
            Instant::FAR_FUTURE
        };
        if self.una == self.end && self.finished_at.is_none() {
            self.finished_at = Some(now);
        }
    }

    /// Handles the expiry of the retransmission timer (RFC 6298, section 5; RFC 6675, section 5.1):
    /// all segments without a mark count as lost.
    pub(crate) fn handle_timeout(&mut self, now: Instant<Virtual>) {
        if now < self.deadline {
            return;
        }
        self.timeouts += 1;
        self.round_trip.back_off();
        self.deadline = now + self.round_trip.timeout();
        if self.state == State::Opened {
            self.state = State::Opening;
            return;
        }
        // During recovery, the outstanding segments have already caused a reduction. Their number
        // then says little, since new segments were sent while the first one was missing.
        if self.state == State::Steady {
            self.congestion.shrink(low_u32(self.nxt - self.una));
        }
        self.congestion.window = 1.0;
        if let Some(bbr) = &mut self.congestion.bbr {
            bbr.handle_timeout();
        }
        self.answered_marks();
        self.state = State::AfterTimeout;
        self.recover = self.nxt;
        self.duplicates = 0;
        self.again = false;
        self.resend = self.una;
        self.lost_edge = self.nxt;
        self.recount_lost();
        self.force = true;
    }
}
