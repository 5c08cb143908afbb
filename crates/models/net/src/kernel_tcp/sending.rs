//! Unacknowledged segments of a host, and the times of their retransmission.
//!
//! As usual, the kernel detects losses that acknowledgements reveal (RACK, SACK), and retransmits
//! those segments itself. This module keeps the timers: for a lost tail (RFC 8985, section 7), for
//! retransmission (RFC 6298), and for opening a connection. The order of events is that of Linux:
//! net/ipv4/tcp_output.c, `tcp_schedule_loss_probe`; tcp_input.c, `tcp_ack`; tcp_timer.c,
//! `tcp_retransmit_timer`.

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant, Virtual};

use super::comparison;
use super::copies::Copy;
use super::estimator::{LEAST_TIMEOUT, LinuxRtt};
use super::retransmissions::Retransmissions;
use super::scoreboard::{Scoreboard, is_within};
use super::segment::{Segment, before, scaled, window_bytes};
use super::ticks::Ticks;
use super::{Action, TcpTimerStats};

/// Segments that the host has sent on a connection, and that its peer has not acknowledged.
#[derive(Debug)]
pub(super) struct Sending<C> {
    /// First unacknowledged sequence number.
    una: u32,
    /// Sequence number after the last one that was sent.
    next: u32,
    copies: VecDeque<Copy<C>>,
    board: Scoreboard,
    /// Retransmissions by the kernel.
    retransmissions: Retransmissions,
    /// True if the kernel may answer the last acknowledgement with a retransmission.
    may_repair: bool,
    rtt: LinuxRtt,
    /// Number of doublings of the timeout.
    doublings: u32,
    /// Number of timeouts since the last progress.
    timeouts: u32,
    timer: Option<(Timer, Instant<Virtual>)>,
    /// Sequence number whose acknowledgement ends the present loss recovery, which the kernel or
    /// this module performs; `None` without a recovery.
    recovery: Option<u32>,
    /// Next sequence number when a tail probe was sent; `None` if no probe is in flight.
    probed: Option<u32>,
    /// Repair by this module of segments that were lost together with the one that timed out.
    repair: Option<Repair>,
    /// State while the peer's window has no room for a whole segment: the last segment that the
    /// peer has acknowledged is sent again until the window opens.
    closed: Option<Closed<C>>,
    opening: Opening,
    /// Exponent of the peer's window scale, if its SYN was seen.
    scale: Option<u8>,
    /// Payload of the largest segment sent so far, in bytes.
    largest: u32,
    /// True if more than two segments have been in flight at once.
    has_flight: bool,
    permits_sack: bool,
    has_given_up: bool,
    is_orphan_counted: bool,
    stats: TcpTimerStats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Probe,
    Retransmission,
}

/// Slow start after a timeout; windows are in segments.
#[derive(Debug)]
struct Repair {
    /// End of the lost part: all bytes before it that the peer has not received were lost.
    until: u32,
    /// End of the part that has been retransmitted.
    sent: u32,
    window: u32,
    /// Time of the next retransmission by this module; `None` if the kernel continues the repair.
    due: Option<Instant<Virtual>>,
}

/// State while the window of the peer has no room for a whole segment.
#[derive(Debug)]
struct Closed<C> {
    content: C,
    doublings: u32,
    due: Instant<Virtual>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// A SYN was sent. The first four are repeated after one second each (tcp_syn_linear_timeouts).
    Active,
    Passive,
    Done,
}

impl<C: core::marker::Copy> Sending<C> {
    pub(super) fn new(first: &Segment) -> Self {
        Self {
            una: first.seq,
            next: first.seq,
            copies: VecDeque::new(),
            board: Scoreboard::default(),
            retransmissions: Retransmissions::default(),
            may_repair: false,
            rtt: LinuxRtt::default(),
            doublings: 0,
            timeouts: 0,
            timer: None,
            recovery: None,
            probed: None,
            repair: None,
            closed: None,
            opening: match first.flags & (Segment::SYN | Segment::ACK) {
                Segment::SYN => Opening::Active,
                Segment::ACK | 0 => Opening::Done,
                _ => Opening::Passive,
            },
            scale: None,
            largest: 0,
            has_flight: false,
            permits_sack: true,
            has_given_up: false,
            is_orphan_counted: false,
            stats: TcpTimerStats::default(),
        }
    }

    /// Returns true if `segment` is a SYN that begins a new connection in place of this one.
    pub(super) fn is_superseded_by(&self, segment: &Segment) -> bool {
        segment.has(Segment::SYN) && segment.end() != self.una && segment.seq != self.una
    }

    /// Returns true if `reset` answers the SYN of a host that has sent nothing else.
    pub(super) fn is_answered_by(&self, reset: &Segment) -> bool {
        reset.has(Segment::ACK) && reset.ack == self.next
    }

    /// Returns the number of segments that the kernel itself has retransmitted.
    pub(super) fn resent(&self) -> u64 {
        self.stats.resent
    }

    /// Returns true if the kernel may answer the last acknowledgement with a retransmission.
    pub(super) fn may_repair(&self) -> bool {
        self.may_repair
    }

    /// Returns the activity of this connection's timers.
    pub(super) fn stats(&self) -> TcpTimerStats {
        comparison::judged(&self.stats, self.has_flight)
    }

    /// Returns true if the window of a received segment has room for a whole segment. A kernel with
    /// less to send may send it into a smaller window.
    fn has_room(&self, segment: &Segment) -> bool {
        match self.scale.filter(|_| !segment.has(Segment::SYN)) {
            Some(scale) => window_bytes(segment.window, scale) >= self.largest.max(1),
            None => segment.window > 0,
        }
    }

    /// Processes a segment that the kernel has sent; `copy` is a copy of it.
    pub(super) fn handle_sent(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        (copy, since): (C, Instant<Virtual>),
        ticks: &mut Ticks,
        out: &mut Vec<Action<C>>,
    ) {
        let (seq, end) = (segment.seq, segment.end());
        out.extend(
            self.closed
                .take()
                .map(|closed| Action::Forget(closed.content)),
        );
        if let Some(repair) = &mut self.repair {
            // The kernel itself continues the repair.
            repair.due = None;
        }
        if before(seq, self.next) {
            self.handle_resent(now, segment, ticks);
        }
        if !before(self.next, end) {
            return out.push(Action::Forget(copy));
        }
        let copy = Copy {
            seq,
            end,
            each: segment.each,
            controls: segment.length() - segment.payload,
            content: copy,
            first_sent: since,
            last_sent: since,
            is_resent: false,
        };
        self.largest = self.largest.max(segment.payload.min(segment.each));
        self.stats.segments += u64::from(copy.segments_from(seq));
        let was_idle = self.copies.is_empty();
        self.copies.push_back(copy);
        self.next = end;
        self.has_flight = self.has_flight || self.outstanding() > 2;
        if was_idle || self.timer.is_some_and(|(timer, _)| timer == Timer::Probe) {
            self.arm(now, ticks);
        }
        self.arm_probe(now, false, ticks);
    }

    /// Processes a retransmission by the kernel: of a lost segment, or in answer to a repeated SYN.
    fn handle_resent(&mut self, now: Instant<Virtual>, segment: &Segment, ticks: &mut Ticks) {
        let (seq, end) = (segment.seq, segment.end());
        for copy in &mut self.copies {
            if before(copy.seq, end) && before(seq, copy.end) {
                (copy.last_sent, copy.is_resent) = (now, true);
            }
        }
        if self.opening != Opening::Done {
            return;
        }
        self.retransmissions.add((seq, end), self.next);
        self.stats.resent += u64::from(segment.payload.div_ceil(segment.each).max(1));
        self.recovery.get_or_insert(self.next);
        if !before(self.una, seq) {
            self.arm_whole(now, ticks);
        }
    }

    /// Processes an acknowledgement that has arrived. `echo` is the instant at which the segment
    /// with the echoed time stamp was sent, if known.
    pub(super) fn handle_ack(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        echo: Option<Instant<Virtual>>,
        ticks: &mut Ticks,
        out: &mut Vec<Action<C>>,
    ) {
        let ack = segment.ack;
        if before(self.next, ack) {
            // While a connection is being opened, the peer may still use an earlier one.
            self.stats.foreign += u64::from(self.opening == Opening::Done);
            return;
        }
        if segment.has(Segment::SYN) {
            self.permits_sack = segment.permits_sack;
            self.scale = Some(segment.scale.unwrap_or(0));
        }
        let mut sample = None;
        let mut is_due_anew = false;
        if self.has_room(segment) {
            out.extend(
                self.closed
                    .take()
                    .map(|closed| Action::Forget(closed.content)),
            );
        }
        let was_resent = self.copies.front().is_some_and(|copy| copy.is_resent);
        if before(self.una, ack) {
            sample = self.take_off(now, segment, echo, ticks, out);
            is_due_anew = true;
            self.timeouts = 0;
            if self.opening == Opening::Passive {
                // A retransmitted SYN-ACK gives no sample of the round-trip time
                // (`tcp_synack_rtt_meas`).
                sample = sample.filter(|_| !was_resent);
            }
            if self.opening != Opening::Done {
                self.doublings = 0;
            }
            self.opening = Opening::Done;
        }
        if let Some(sacked) = self.note_blocks(now, segment) {
            let head = self.copies.front().map(|head| head.last_sent);
            is_due_anew |= head.is_some_and(|head| sacked > now - head);
            sample = sample.or(Some(sacked));
        }
        if let Some(sample) = sample {
            self.rtt.sample(sample, ack, self.next);
            self.doublings = 0;
        }
        // The acknowledgement of a retransmission may show that later segments were lost.
        let is_repaired = self.retransmissions.acknowledge(self.una);
        let follows = self.retransmissions.may_follow(self.una, &self.board);
        self.may_repair = follows || is_repaired && before(self.una, self.next);
        if self.recovery.is_some_and(|until| !before(self.una, until)) {
            self.recovery = None;
        }
        if self.probed.is_some_and(|until| !before(self.una, until)) {
            self.probed = None;
        }
        if is_due_anew && !self.arm_probe(now, true, ticks) {
            self.arm(now, ticks);
        }
    }

    /// Removes acknowledged segments; returns a sample of the round-trip time, if there is one.
    fn take_off(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        echo: Option<Instant<Virtual>>,
        ticks: &mut Ticks,
        out: &mut Vec<Action<C>>,
    ) -> Option<Duration> {
        let ack = segment.ack;
        let (mut first, mut resent, mut count) = (None, None, 0);
        while let Some(copy) = self.copies.front().filter(|copy| before(copy.seq, ack)) {
            if copy.is_resent {
                resent = Some((copy.first_sent, copy.last_sent));
            } else if !self.board.has(copy.seq) {
                first = first.or(Some(copy.first_sent));
            }
            count += 1;
            if before(ack, copy.end) {
                break;
            }
            let content = copy.content;
            self.copies.pop_front();
            if self.has_room(segment) || !self.copies.is_empty() {
                out.push(Action::Forget(content));
                continue;
            }
            let timeout = self.rtt.timeout(0).max(LEAST_TIMEOUT);
            self.closed = Some(Closed {
                content,
                doublings: 0,
                due: ticks.expiration(now, timeout),
            });
        }
        self.una = ack;
        self.board.acknowledge(ack);
        self.repair.take_if(|repair| !before(ack, repair.until));
        if let Some(repair) = &mut self.repair {
            repair.window += count;
            repair.due = Some(now + PATIENCE);
        }
        match (resent, first) {
            // With time stamps, the sample is that of the copy whose stamp the peer echoes. If that
            // copy is unknown, it is that of the last copy, unless the answer came sooner than any
            // before.
            (Some(_), _) if echo.is_some() => echo.map(|echo| now - echo),
            (Some((first, last)), _) => match now - last < scaled(self.rtt.least(), 9, 10) {
                true => Some(now - first),
                false => Some(now - last),
            },
            (None, first) => first.map(|first| now - first),
        }
    }

    /// Records ranges that the peer received beyond a gap; returns a sample of the round-trip time.
    fn note_blocks(&mut self, now: Instant<Virtual>, segment: &Segment) -> Option<Duration> {
        let mut first: Option<Instant<Virtual>> = None;
        for (from, to) in segment.sack.iter() {
            if !before(from, to) || !before(self.una, to) || before(self.next, to) {
                continue; // a duplicate, or invalid
            }
            for copy in &self.copies {
                let is_new = is_within((from, to), copy.seq) && !self.board.has(copy.seq);
                if is_new && !copy.is_resent {
                    first = Some(first.map_or(copy.first_sent, |it| it.min(copy.first_sent)));
                }
            }
            self.board.add(from, to);
        }
        first.map(|first| now - first)
    }

    /// Returns the instant at which the next timer expires; `None` if no timer is set.
    pub(super) fn next_wake(&self) -> Option<Instant<Virtual>> {
        let repair = self.repair.as_ref().and_then(|repair| repair.due);
        let timer = self.timer.map(|(_, due)| due);
        let closed = self.closed.as_ref().map(|closed| closed.due);
        timer.into_iter().chain(repair).chain(closed).min()
    }

    /// Processes all expired timers, and appends actions to `out`.
    pub(super) fn handle_wake(
        &mut self,
        now: Instant<Virtual>,
        ticks: &mut Ticks,
        out: &mut Vec<Action<C>>,
    ) {
        match self.timer {
            Some((Timer::Probe, due)) if due <= now => self.probe(now, ticks, out),
            Some((Timer::Retransmission, due)) if due <= now => self.time_out(now, ticks, out),
            _ => {}
        }
        if let Some(repair) = &mut self.repair
            && repair.due.is_some_and(|due| due <= now)
        {
            repair.due = None;
            self.go_on_repairing(now, out);
        }
        if let Some(closed) = self.closed.as_mut().filter(|closed| closed.due <= now) {
            // The peer already has this segment, and answers with its present window.
            out.push(Action::Again(closed.content, 0));
            closed.doublings += 1;
            let timeout = self.rtt.timeout(closed.doublings).max(LEAST_TIMEOUT);
            closed.due = ticks.expiration(now, timeout);
        }
    }

    fn probe(&mut self, now: Instant<Virtual>, ticks: &mut Ticks, out: &mut Vec<Action<C>>) {
        if self.probed.is_some() {
            return self.arm(now, ticks);
        }
        let Some(from) = self.copies.back().map(Copy::last_segment) else {
            self.timer = None;
            return;
        };
        self.stats.probes += 1;
        self.send_again(now, from, out);
        self.probed = Some(self.next);
        self.arm_whole(now, ticks);
    }

    fn time_out(&mut self, now: Instant<Virtual>, ticks: &mut Ticks, out: &mut Vec<Action<C>>) {
        self.timer = None;
        if self.copies.is_empty() {
            return;
        }
        let most = match self.opening {
            Opening::Active => SYN_RETRIES,
            Opening::Passive => SYN_ACK_RETRIES,
            Opening::Done => RETRIES,
        };
        if self.timeouts >= most {
            self.has_given_up = true;
            self.stats.given_up += 1;
            return;
        }
        self.timeouts += 1;
        self.stats.timeouts += 1;
        if self.timeouts > ORPHAN_RETRIES && !self.is_orphan_counted && self.has_sent_fin() {
            // A kernel whose program has closed the connection would have given up.
            self.is_orphan_counted = true;
            self.stats.given_up += 1;
        }
        if self.opening == Opening::Done {
            let outstanding = self.outstanding();
            self.stats.collapses += u64::from(self.timeouts == 1 && outstanding > FEW);
            self.recovery = Some(self.next);
            self.repair = Some(Repair {
                until: self.next,
                sent: self.una,
                window: 1,
                due: None,
            });
            self.go_on_repairing(now, out);
        } else {
            self.send_again(now, self.una, out);
        }
        if self.opening != Opening::Active || self.timeouts > LINEAR_SYNS {
            self.doublings += 1;
        }
        self.arm_whole(now, ticks);
    }

    /// Retransmits lost segments, as far as the slow-start window permits.
    fn go_on_repairing(&mut self, now: Instant<Virtual>, out: &mut Vec<Action<C>>) {
        let Some(mut repair) = self.repair.take() else {
            return;
        };
        if before(repair.sent, self.una) {
            repair.sent = self.una;
        }
        for _ in 0..repair.window {
            repair.sent = self.board.missing_from(repair.sent);
            if !before(repair.sent, repair.until) {
                break;
            }
            repair.sent = self.send_again(now, repair.sent, out);
        }
        self.repair = Some(repair);
    }

    /// Retransmits the segment that begins at `from`; returns its end.
    fn send_again(&mut self, now: Instant<Virtual>, from: u32, out: &mut Vec<Action<C>>) -> u32 {
        let Some(copy) = self.copies.iter_mut().find(|copy| before(from, copy.end)) else {
            return self.next;
        };
        (copy.last_sent, copy.is_resent) = (now, true);
        let last = copy.last_segment();
        let number = match before(copy.seq, from) {
            // A FIN without payload is sent together with the last payload.
            true if before(last, from) => last.wrapping_sub(copy.seq) / copy.each,
            true => from.wrapping_sub(copy.seq) / copy.each,
            false => 0,
        };
        out.push(Action::Again(copy.content, number));
        let end = copy.seq.wrapping_add((number + 1) * copy.each);
        if before(last, end) { copy.end } else { end }
    }

    /// Sets the retransmission timer. It counts from the first segment if a probe timer was set,
    /// and from now otherwise.
    fn arm(&mut self, now: Instant<Virtual>, ticks: &mut Ticks) {
        let Some(head) = self.copies.front() else {
            self.timer = None;
            return;
        };
        let mut timeout = self.rtt.timeout(self.doublings);
        if self.timer.is_some_and(|(timer, _)| timer == Timer::Probe) {
            timeout = (head.last_sent + timeout - now).max(ticks.tick());
        }
        self.timer = Some((Timer::Retransmission, ticks.expiration(now, timeout)));
    }

    fn arm_whole(&mut self, now: Instant<Virtual>, ticks: &mut Ticks) {
        self.timer = None;
        if !self.has_given_up {
            self.arm(now, ticks);
        }
    }

    /// Sets a probe timer in place of the retransmission timer, if Linux would. Returns true if it
    /// was set.
    fn arm_probe(&mut self, now: Instant<Virtual>, is_progress: bool, ticks: &mut Ticks) -> bool {
        let repairs = self.recovery.is_some() || !self.board.is_empty();
        let Some(head) = self.copies.front() else {
            return false;
        };
        if self.opening != Opening::Done || !self.permits_sack || repairs {
            return false;
        }
        let few = match self.outstanding() {
            // The peer may delay the acknowledgement of a single segment.
            1 => LEAST_TIMEOUT,
            _ => Duration::from_ms(2),
        };
        let smoothed = self.rtt.smoothed();
        let mut timeout =
            smoothed.map_or(super::estimator::FIRST_TIMEOUT, |it| scaled(it, 2, 1) + few);
        let retransmission = self.rtt.timeout(self.doublings);
        let left = match is_progress {
            true => retransmission,
            false => head.last_sent + retransmission - now,
        };
        if left > Duration::ZERO {
            timeout = timeout.min(left);
        }
        self.timer = Some((Timer::Probe, ticks.expiration(now, timeout)));
        true
    }

    fn has_sent_fin(&self) -> bool {
        self.opening == Opening::Done && self.copies.back().is_some_and(|copy| copy.controls > 0)
    }

    /// Returns the number of unacknowledged segments.
    fn outstanding(&self) -> u32 {
        let copies = self.copies.iter();
        copies.map(|copy| copy.segments_from(self.una)).sum()
    }

    /// Returns true if all that was sent has been acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.copies.is_empty()
    }

    /// Drops all copies.
    pub(super) fn clear(&mut self, out: &mut Vec<Action<C>>) {
        out.extend(
            self.copies
                .drain(..)
                .map(|copy| Action::Forget(copy.content)),
        );
        out.extend(
            self.closed
                .take()
                .map(|closed| Action::Forget(closed.content)),
        );
        (self.timer, self.repair) = (None, None);
    }
}

/// Time within which the kernel may send on its own after an acknowledgement of a segment that this
/// module has retransmitted.
const PATIENCE: Duration = Duration::from_ms(1);
/// Number of segments in flight up to which a collapse of the window has little effect.
const FEW: u32 = 3;
/// Default of tcp_syn_linear_timeouts.
const LINEAR_SYNS: u32 = 4;
/// Default of tcp_syn_retries.
const SYN_RETRIES: u32 = 6;
/// Default of tcp_synack_retries.
const SYN_ACK_RETRIES: u32 = 5;
/// Default of tcp_retries2.
const RETRIES: u32 = 15;
/// Number of retransmissions of data of a closed connection: `tcp_orphan_retries` in its default.
const ORPHAN_RETRIES: u32 = 8;
