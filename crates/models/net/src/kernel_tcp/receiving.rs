//! Acknowledgements that a host's kernel sends at once, and that the network delays as Linux would
//! (net/ipv4/tcp_input.c, `__tcp_ack_snd_check` and `tcp_event_data_recv`).

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant, Virtual};

use super::Action;
use super::segment::{Segment, before, scaled};
use super::ticks::Ticks;

/// State of the acknowledgements for one direction of a connection.
#[derive(Debug)]
pub(super) struct Receiving<C> {
    /// Acknowledgement number that was sent last.
    acknowledged: Option<u32>,
    /// End of the latest data that has arrived.
    arrived: Option<u32>,
    had_gap: bool,
    held: Option<Held<C>>,
    /// Payload of the largest segment received so far, in bytes.
    largest: u32,
    /// True if the last segment was shorter than the largest, or had the PSH flag.
    is_pushed: bool,
    received_at: Option<Instant<Virtual>>,
    /// Number of acknowledgements at the beginning that are not delayed.
    quick: u32,
    /// True if the host answers with data of its own.
    answers: bool,
    delay: Duration,
    /// History of echoed time stamps: the instant from which the host's segments echo a stamp, and
    /// the instant at which the segment with that stamp was sent (RFC 7323, section 4.3).
    echoes: VecDeque<(Instant<Virtual>, Instant<Virtual>)>,
}

#[derive(Debug)]
struct Held<C> {
    content: C,
    due: Instant<Virtual>,
    window: u16,
    ack: u32,
}

/// Decision about a segment that the host's kernel sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Hold,
}

/// Maximum number of quick acknowledgements (TCP_MAX_QUICKACKS).
const QUICK: u32 = 16;
/// Maximum number of stored time stamps: more than can change while a segment is in flight.
const ECHOES: usize = 256;
/// Minimum delay of an acknowledgement (TCP_ATO_MIN).
const LEAST_DELAY: Duration = Duration::from_ms(40);

/// Maximum delay of an acknowledgement (TCP_DELACK_MAX).
const GREATEST_DELAY: Duration = Duration::from_ms(200);

impl<C: Copy> Receiving<C> {
    pub(super) fn new() -> Self {
        Self {
            acknowledged: None,
            arrived: None,
            had_gap: false,
            held: None,
            largest: 0,
            is_pushed: false,
            received_at: None,
            quick: QUICK,
            answers: false,
            delay: LEAST_DELAY,
            echoes: VecDeque::new(),
        }
    }

    /// Returns the instant at which a time stamp was sent, given that the host echoed it in a
    /// segment at `at`.
    pub(super) fn echo_at(&self, at: Instant<Virtual>) -> Option<Instant<Virtual>> {
        let since = self.echoes.partition_point(|(since, _)| *since <= at);
        Some(self.echoes.get(since.checked_sub(1)?)?.1)
    }

    /// Records the time stamp of a segment that begins at or before the last acknowledgement
    /// number. A segment that also ends before that number is ignored.
    fn note_stamp(&mut self, now: Instant<Virtual>, segment: &Segment, sent: Instant<Virtual>) {
        let wanted = self.acknowledged.unwrap_or(segment.seq);
        let is_seen = !before(wanted, segment.seq) && !before(segment.end(), wanted);
        // Linux does not record the time stamp of a repeated SYN (`tcp_check_req`).
        let is_again = segment.has(Segment::SYN) && !self.echoes.is_empty();
        if is_again || !is_seen || self.echoes.back().is_some_and(|(_, last)| *last >= sent) {
            return;
        }
        if self.echoes.len() == ECHOES {
            self.echoes.pop_front();
        }
        self.echoes.push_back((now, sent));
    }

    /// Returns the acknowledgement number that was sent last; `None` before the first.
    pub(super) fn acknowledged(&self) -> Option<u32> {
        self.acknowledged
    }

    /// Returns true if the kernel obeys a RST with this sequence number: it must be the next one
    /// that the kernel expects (RFC 5961, section 3.2). The kernel may have received data that it
    /// has not acknowledged yet.
    pub(super) fn expects(&self, seq: u32) -> bool {
        self.acknowledged.is_none_or(|from| {
            let to = self.arrived.filter(|to| before(from, *to)).unwrap_or(from);
            !before(seq, from) && !before(to, seq)
        })
    }

    /// Processes a segment for the host, which arrives at `now` and was sent at `sent`.
    pub(super) fn handle_received(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        sent: Instant<Virtual>,
    ) {
        self.note_stamp(now, segment, sent);
        let end = segment.end();
        self.arrived = Some(match self.arrived {
            Some(arrived) if before(end, arrived) => arrived,
            _ => end,
        });
        if segment.has(Segment::FIN) {
            self.answers = true;
        }
        if segment.payload == 0 {
            return;
        }
        self.largest = self.largest.max(segment.each);
        self.is_pushed = segment.has(Segment::PSH) || !segment.payload.is_multiple_of(self.largest);
        if let Some(last) = self.received_at {
            let gap = now - last;
            let half = |length| scaled(length, 1, 2);
            if gap <= half(LEAST_DELAY) {
                self.delay = half(self.delay) + half(LEAST_DELAY);
            } else if gap < self.delay {
                self.delay = half(self.delay) + gap;
            }
            self.delay = self.delay.min(GREATEST_DELAY);
        }
        self.received_at = Some(now);
    }

    /// Processes a segment that the host's kernel sends.
    pub(super) fn handle_sent(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        out: &mut Vec<Action<C>>,
    ) -> Fate {
        if !segment.is_pure_ack() {
            let received = self.received_at;
            self.answers |= segment.payload > 0 && received.is_some_and(|at| now - at < self.delay);
            self.pass(segment, out);
            return Fate::Pass;
        }
        let has_gap = !segment.sack.is_empty();
        let is_filled = core::mem::replace(&mut self.had_gap, has_gap);
        let last = self.acknowledged.unwrap_or(segment.ack);
        let advance = match before(last, segment.ack) {
            true => segment.ack.wrapping_sub(last),
            false => 0,
        };
        let held = self.held.as_ref();
        // The program has read data, so the window opens.
        let opens = held.is_some_and(|it| it.ack == segment.ack && segment.window > it.window);
        let at_once = has_gap
            || is_filled
            || opens
            || advance == 0
            || advance > self.largest.max(1)
            || !self.answers && (self.quick > 0 || self.is_pushed);
        if at_once {
            self.pass(segment, out);
            return Fate::Pass;
        }
        Fate::Hold
    }

    /// Holds an acknowledgement back, as [`Receiving::handle_sent`] requested.
    pub(super) fn hold(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        content: C,
        ticks: &mut Ticks,
        out: &mut Vec<Action<C>>,
    ) {
        let earlier = self.held.take();
        let due = match &earlier {
            Some(earlier) => earlier.due,
            None => ticks.expiration(now, self.delay),
        };
        out.extend(earlier.map(|earlier| Action::Forget(earlier.content)));
        self.held = Some(Held {
            content,
            due,
            window: segment.window,
            ack: segment.ack,
        });
    }

    /// Records that an acknowledgement is sent, alone or with data.
    fn pass(&mut self, segment: &Segment, out: &mut Vec<Action<C>>) {
        if !segment.has(Segment::ACK) {
            return;
        }
        let acknowledges = self.acknowledged.is_none_or(|it| before(it, segment.ack));
        if acknowledges && self.received_at.is_some() {
            self.quick = self.quick.saturating_sub(1);
        }
        if acknowledges {
            self.acknowledged = Some(segment.ack);
        }
        let superseded = self.held.take_if(|it| !before(segment.ack, it.ack));
        out.extend(superseded.map(|it| Action::Forget(it.content)));
    }

    pub(super) fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.held.as_ref().map(|held| held.due)
    }

    /// Sends acknowledgements whose delay has expired.
    pub(super) fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Vec<Action<C>>) {
        let Some(held) = self.held.take_if(|held| held.due <= now) else {
            return;
        };
        self.acknowledged = Some(held.ack);
        self.delay = match self.answers {
            // The host was expected to answer with data, but had none.
            true => LEAST_DELAY,
            false => scaled(self.delay, 2, 1).min(GREATEST_DELAY),
        };
        self.answers = false;
        out.push(Action::Release(held.content));
    }

    /// Drops the acknowledgement that is held back.
    pub(super) fn clear(&mut self, out: &mut Vec<Action<C>>) {
        out.extend(self.held.take().map(|held| Action::Forget(held.content)));
    }
}
