//! Acknowledgements that a host's kernel sends at once, held back as Linux delays them
//! (net/ipv4/tcp_input.c, `__tcp_ack_snd_check` and `tcp_event_data_recv`).

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant, Virtual};

use super::Action;
use super::segment::{Segment, before, scaled};
use super::ticks::Ticks;

/// Acknowledgements of one direction of a connection.
#[derive(Debug)]
pub(super) struct Receiving<C> {
    /// Last acknowledgement that was sent.
    acknowledged: Option<u32>,
    had_gap: bool,
    held: Option<Held<C>>,
    /// Payload of the largest segment so far, in bytes.
    largest: u32,
    /// True if the payload of the last segment was short, or pushed.
    is_pushed: bool,
    received_at: Option<Instant<Virtual>>,
    /// Number of initial acknowledgements that are still sent at once.
    quick: u32,
    /// True if the host answers with data of its own.
    answers: bool,
    delay: Duration,
    /// Echoed time stamps: the instant from which segments echo a stamp, and the instant at which
    /// the segment with that stamp was sent (RFC 7323, section 4.3).
    echoes: VecDeque<(Instant<Virtual>, Instant<Virtual>)>,
}

#[derive(Debug)]
struct Held<C> {
    content: C,
    due: Instant<Virtual>,
    window: u16,
    ack: u32,
}

/// Decision about a segment that a kernel sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Hold,
}

/// TCP_MAX_QUICKACKS.
const QUICK: u32 = 16;
/// Maximum number of stored stamps: more than can change while a segment is in flight.
const ECHOES: usize = 256;
/// TCP_ATO_MIN, and TCP_DELACK_MAX.
const LEAST_DELAY: Duration = Duration::from_ms(40);
const GREATEST_DELAY: Duration = Duration::from_ms(200);

impl<C: Copy> Receiving<C> {
    pub(super) fn new() -> Self {
        Self {
            acknowledged: None,
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

    /// Returns the origin of the time stamp echoed by a segment that the host sent at `at`.
    pub(super) fn echo_at(&self, at: Instant<Virtual>) -> Option<Instant<Virtual>> {
        let since = self.echoes.partition_point(|(since, _)| *since <= at);
        Some(self.echoes.get(since.checked_sub(1)?)?.1)
    }

    /// Records the stamp of a segment that begins at or before the end of the last acknowledgement.
    /// A segment that also ends before it is ignored.
    fn note_stamp(&mut self, now: Instant<Virtual>, segment: &Segment, sent: Instant<Virtual>) {
        let wanted = self.acknowledged.unwrap_or(segment.seq);
        let is_seen = !before(wanted, segment.seq) && !before(segment.end(), wanted);
        // The stamp of a repeated SYN is not recorded (Linux, `tcp_check_req`).
        let is_again = segment.has(Segment::SYN) && !self.echoes.is_empty();
        if is_again || !is_seen || self.echoes.back().is_some_and(|(_, last)| *last >= sent) {
            return;
        }
        if self.echoes.len() == ECHOES {
            self.echoes.pop_front();
        }
        self.echoes.push_back((now, sent));
    }

    /// Handles a segment that has arrived for the host, and was sent at `sent`.
    pub(super) fn handle_received(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        sent: Instant<Virtual>,
    ) {
        self.note_stamp(now, segment, sent);
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

    /// Handles a segment sent by the host's kernel.
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
        // The application has read data, and the window opens.
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

    /// Holds back the acknowledgement, as requested by [`Receiving::handle_sent`].
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

    /// Records an acknowledgement that is sent, by itself or with data.
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
            // The host had no data to answer with after all.
            true => LEAST_DELAY,
            false => scaled(self.delay, 2, 1).min(GREATEST_DELAY),
        };
        self.answers = false;
        out.push(Action::Release(held.content));
    }

    /// Drops the held acknowledgement.
    pub(super) fn clear(&mut self, out: &mut Vec<Action<C>>) {
        out.extend(self.held.take().map(|held| Action::Forget(held.content)));
    }
}
