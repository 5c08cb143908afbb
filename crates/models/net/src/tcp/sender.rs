//! The sending end: what to send, and when. What was lost is found in `recovery`.

mod recovery;

use timeloom_time::{Duration, Instant, Virtual};

use super::bbr::Delivery;
use super::board::Board;
use super::congestion::{Congestion, Progress};
use super::rtt::RoundTrip;
use super::{Ack, Control, TcpConfig};
use crate::packet::Packet;
use recovery::{Reduction, THRESHOLD};

/// What a sender wants sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transmit {
    Syn,
    Segment(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The opening is to be sent, for the first time or again.
    Opening,
    /// The opening is on its way.
    Opened,
    Steady,
    /// Losses up to `recover` are being repaired (RFC 6675).
    Recovery,
    /// What was sent before a timeout is being repaired, in slow start.
    AfterTimeout,
}

/// The sender of one flow.
///
/// The estimate of what is in flight, RFC 6675's pipe, is kept by counting:
/// segments outstanding, less those known to have arrived, less those known to
/// be lost and not yet sent again.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    state: State,
    /// First segment not acknowledged.
    una: u64,
    /// First segment never sent.
    nxt: u64,
    /// First segment that will never be sent.
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
    /// The last block that was marked; those of it from `una` on still are.
    block: (u64, u64),
    /// Segments below this that are not marked count as lost.
    lost_edge: u64,
    /// Where to look for the next lost segment to send again.
    resend: u64,
    /// Segments in `resend..lost_edge` that are not marked.
    lost: u32,
    /// The next retransmission goes out whatever the pipe says (RFC 6675,
    /// section 5, step 4.3).
    force: bool,
    /// `nxt` when the first segment outstanding was sent again, or became the
    /// first, whichever is later.
    head_nxt: u64,
    /// That segment's retransmission is lost too.
    again: bool,
    reduction: Reduction,
    ecn: bool,
    /// Acknowledgements of more than this tell of marks that no slowing down has
    /// answered, for the segment that tells the receiver has this number.
    marks_from: u64,
    /// The next new segment says that the sender has slowed down.
    tell_slowed: bool,
    deadline: Instant<Virtual>,
    /// There is a segment to be sent, and it is not its time yet.
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

    /// When [`Sender::handle_timeout`] is due; it may move further away, so
    /// whoever keeps the appointment looks again when it comes.
    #[inline]
    pub(crate) fn next_wake(&self) -> Instant<Virtual> {
        match &self.congestion.bbr {
            Some(bbr) if self.is_paced => self.deadline.min(bbr.next_send),
            _ => self.deadline,
        }
    }

    /// That of another connection of the same flow, which is to be opened. What was counted goes
    /// on.
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

    /// Whether it sends for ever.
    pub(crate) fn is_endless(&self) -> bool {
        self.end == u64::MAX
    }

    /// The first segment that is not acknowledged.
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
        (self.nxt - self.una) as u32 - self.sacked - self.lost
    }

    /// The next packet to send now, if any.
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

    /// The segment that the window lets go out, when it is its time.
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

    /// The segment that the window lets go out.
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

    /// The type of service and the flags of the segment that was just given out.
    /// Only new ones may be marked (RFC 3168, section 6.1.5).
    #[inline]
    pub(crate) fn congestion_bits(&mut self, segment: u64) -> (u8, u8) {
        if !self.ecn || segment + 1 != self.nxt {
            return (0, 0);
        }
        let slowed = core::mem::take(&mut self.tell_slowed);
        (Packet::ECN_CAPABLE, if slowed { Packet::CWR } else { 0 })
    }

    /// An acknowledgement told of a mark: as at a loss, but nothing is sent
    /// again (RFC 3168, section 6.1.2).
    #[cold]
    fn slow_down(&mut self, next: u64) {
        if self.state != State::Steady || next <= self.marks_from {
            return;
        }
        self.congestion
            .shrink_by_marks((self.nxt - self.una) as u32);
        self.marks_from = self.nxt;
        self.tell_slowed = true;
        self.slowed_by_marks += 1;
    }

    fn arm(&mut self, now: Instant<Virtual>) {
        if self.deadline == Instant::FAR_FUTURE {
            self.deadline = now + self.round_trip.timeout();
        }
    }

    /// The receiver answered the opening.
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

    /// An acknowledgement came in. Nonsense (from beyond what was sent) is
    /// ignored.
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
            let delivered = (self.una + u64::from(self.sacked)).saturating_sub(before) as u32;
            let pipe = self.pipe();
            let threshold = self.congestion.threshold();
            let send = self.reduction.allows(delivered, advances, pipe, threshold);
            self.congestion.window = f64::from(pipe + send);
        }
    }

    /// What the acknowledgement says of the path, of which the window follows.
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
        let flight = (self.nxt - self.una) as u32;
        let acked = (ack.next - self.una) as u32;
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
            // What tells of congestion does not let the window grow; after a
            // timeout it is known, and only new segments can tell the receiver.
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

    /// The retransmission timer expired (RFC 6298, section 5; RFC 6675,
    /// section 5.1): everything not marked is lost.
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
        // What is outstanding has cost a halving already when it was being
        // repaired; its count says little then, for new segments went out
        // while the first one was stuck.
        if self.state == State::Steady {
            self.congestion.shrink((self.nxt - self.una) as u32);
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
