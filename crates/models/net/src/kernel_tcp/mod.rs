//! TCP timers of a host's kernel, kept by the network in virtual time.
//!
//! A kernel's own timers are useless where virtual time skips idle periods: they run in real time,
//! of which almost none passes. The kernel is therefore configured with timers far in the future,
//! and the network acts in virtual time as the kernel's timers would have done. At the port of each
//! host, it keeps a copy of every unacknowledged segment. It retransmits a copy at the instant at
//! which the kernel would: a SYN, a SYN-ACK, a lost tail, a FIN, or data after a timeout. The
//! kernel acknowledges each segment at once; the network holds back acknowledgements that Linux
//! would delay. It also repeats neighbour solicitations (ARP, neighbour discovery) that were lost.
//!
//! The kernel does not notice timeouts, so its congestion window does not collapse after them. This
//! is relevant if timeouts are frequent among the segments of a flow, and is therefore counted
//! ([`TcpTimerStats`]).
//!
//! The state machines of this module are generic in the type of a copy, know nothing of links, and
//! do no I/O. They follow Linux 6.18 with its default settings.

mod comparison;
mod copies;
mod estimator;
mod neighbours;
mod receiving;
mod retransmissions;
mod scoreboard;
mod segment;
mod sending;
#[cfg(test)]
mod tests;
mod ticks;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

pub(crate) use neighbours::{Neighbours, Word};
pub(crate) use receiving::Fate;
use receiving::Receiving;
use segment::{Connection, SackBlocks, before, window_bytes};
pub(crate) use segment::{News, Segment};
use sending::Sending;
use ticks::Ticks;

/// Activity of the timers that the network keeps for one host's kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpTimerStats {
    /// Number of segments that the kernel has sent for the first time.
    pub segments: u64,
    /// Number of segments that the kernel itself has retransmitted, after acknowledgements revealed
    /// a loss, on connections that have had more than two segments in flight. (With fewer segments
    /// in flight, a connection is as fast with Reno as with CUBIC.)
    pub resent: u64,
    /// Number of retransmission timeouts, including those of connection attempts.
    pub timeouts: u64,
    /// Number of first timeouts of a series with more than three segments in flight. The kernel's
    /// congestion window would have collapsed, but did not.
    pub collapses: u64,
    /// Number of tail loss probes.
    pub probes: u64,
    /// Number of connections that reached Linux's maximum number of retransmissions. Linux would
    /// have reported ETIMEDOUT to the program.
    pub given_up: u64,
    /// Number of acknowledgements for data that the host has never sent.
    pub foreign: u64,
    /// Number of connections with more losses than were compared with a kernel's, or with more
    /// collapses of the congestion window than the means hide.
    pub lossy: u64,
    /// Number of connections on which the host has sent something to acknowledge.
    pub connections: u64,
    /// Longest time for which an open connection carried no segment.
    pub longest_idle: Duration,
    /// Number of neighbours that did not answer Linux's maximum number of solicitations.
    pub unresolved: u64,
    /// Number of packets of the host that have, or may have, segments without timers: behind a VLAN
    /// tag, as fragments, or in a tunnel (IP in IP, GRE, IPsec).
    pub hidden: u64,
}

impl TcpTimerStats {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.segments += other.segments;
        self.resent += other.resent;
        self.timeouts += other.timeouts;
        self.collapses += other.collapses;
        self.probes += other.probes;
        self.given_up += other.given_up;
        self.foreign += other.foreign;
        self.lossy += other.lossy;
        self.connections += other.connections;
        self.longest_idle = self.longest_idle.max(other.longest_idle);
        self.unresolved += other.unresolved;
        self.hidden += other.hidden;
    }
}

/// Segment with data, SYN or FIN that a host's kernel has sent, for [`World::take_sent_segment`].
///
/// [`World::take_sent_segment`]: crate::World::take_sent_segment
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentSegment {
    /// Ends of the connection: local and remote.
    pub ends: [SocketAddr; 2],
    /// Sequence numbers from the first to the one after the last, if the kernel has sent (some of)
    /// them before.
    pub resent: Option<(u32, u32)>,
}

/// Acknowledgement for a host's kernel, for [`World::next_frame_after_gap`].
///
/// [`World::next_frame_after_gap`]: crate::World::next_frame_after_gap
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement {
    /// Ends of the connection: local and remote.
    pub ends: [SocketAddr; 2],
    /// Acknowledged sequence number.
    pub(crate) ack: u32,
    /// Selectively acknowledged data.
    pub(crate) sack: SackBlocks,
    /// True if the kernel may answer with a retransmission.
    pub(crate) may_repair: bool,
}

impl Acknowledgement {
    /// Creates the acknowledgement of all sequence numbers before `ack`, and of those in `blocks`,
    /// each from the first to the one after the last, of which at most four count. The kernel may
    /// answer with a retransmission if there are blocks.
    #[must_use]
    pub fn new(ends: [SocketAddr; 2], ack: u32, blocks: &[(u32, u32)]) -> Self {
        Self {
            ends,
            ack,
            sack: SackBlocks::new(blocks),
            may_repair: !blocks.is_empty(),
        }
    }

    /// Returns true if the kernel may answer the acknowledgement with a retransmission.
    #[must_use]
    pub fn may_repair(&self) -> bool {
        self.may_repair
    }

    /// Returns true if all sequence numbers before `end` are acknowledged.
    #[must_use]
    pub fn is_beyond(&self, end: u32) -> bool {
        !before(self.ack, end)
    }

    /// Returns true if the acknowledgement covers one of these sequence numbers.
    #[must_use]
    pub fn covers(&self, (from, end): (u32, u32)) -> bool {
        before(from, self.ack)
            || self
                .sack
                .iter()
                .any(|(first, last)| before(first, end) && before(from, last))
    }
}

/// Action on a stored packet, for the caller to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<C> {
    /// Send segment number `.1` of copy `.0`; the copy stays stored.
    Again(C, u32),
    /// Send a packet that was held back.
    Release(C),
    /// Drop a copy that is no longer needed.
    Forget(C),
}

/// TCP timers of one host's kernel.
#[derive(Debug)]
pub(crate) struct TcpTimers<C> {
    ticks: Ticks,
    connections: BTreeMap<Connection, Flow<C>>,
    due: BTreeSet<(Instant<Virtual>, Connection)>,
    /// Activity of connections that have been closed.
    ended: TcpTimerStats,
    /// Longest time between two segments of a connection.
    longest_idle: Duration,
    /// Segment that the kernel sent last, until it is taken.
    last_sent: Option<SentSegment>,
}

#[derive(Debug)]
struct Flow<C> {
    /// Timers of the data that the host sends; `None` until its kernel sends data.
    sending: Option<Sending<C>>,
    receiving: Receiving<C>,
    /// Header fields of the last segment that the host has sent.
    news: Option<News>,
    /// Exponent of the host's window scale, if its SYN was seen.
    scale: Option<u8>,
    has_sent_fin: bool,
    has_received_fin: bool,
    /// True if the peer has acknowledged data beyond a gap.
    has_gaps: bool,
    /// Instant of the last segment in either direction.
    used: Instant<Virtual>,
    due: Option<Instant<Virtual>>,
}

impl<C: Copy> Flow<C> {
    fn new(now: Instant<Virtual>) -> Self {
        Self {
            sending: None,
            receiving: Receiving::new(),
            news: None,
            scale: None,
            has_sent_fin: false,
            has_received_fin: false,
            has_gaps: false,
            used: now,
            due: None,
        }
    }

    fn next_wake(&self) -> Option<Instant<Virtual>> {
        let sending = self.sending.as_ref().and_then(Sending::next_wake);
        sending.into_iter().chain(self.receiving.next_wake()).min()
    }

    /// Records a segment of the connection. A connection that one end has closed is not idle.
    fn use_at(&mut self, now: Instant<Virtual>, longest_idle: &mut Duration) {
        if !self.has_sent_fin && !self.has_received_fin {
            *longest_idle = (*longest_idle).max(now - self.used);
        }
        self.used = now;
    }

    /// Returns true if the kernel processes a received segment: it overlaps the window that the
    /// host has offered (`tcp_sequence`). The kernel answers all others and does nothing else, so
    /// that forged segments have no effect.
    fn admits(&self, segment: &Segment) -> bool {
        let Some(from) = self.receiving.acknowledged() else {
            return true;
        };
        let offered = self.news.zip(self.scale);
        let window = offered.map_or(GREATEST_WINDOW, |(news, scale)| {
            window_bytes(news.window, scale)
        });
        segment.has(Segment::SYN)
            || !before(segment.end(), from) && !before(from.wrapping_add(window), segment.seq)
    }

    /// Returns true if the kernel ends the connection at a received RST. A host that has sent no
    /// more than a SYN obeys the answer to that SYN.
    fn obeys(&self, reset: &Segment) -> bool {
        match (self.receiving.acknowledged(), &self.sending) {
            (None, Some(sending)) => sending.is_answered_by(reset),
            _ => self.receiving.expects(reset.seq),
        }
    }

    fn is_over(&self) -> bool {
        let sent = self.sending.as_ref().is_none_or(Sending::is_done);
        self.has_sent_fin && self.has_received_fin && sent && self.receiving.next_wake().is_none()
    }
}

impl<C: Copy> TcpTimers<C> {
    /// Returns the timers of a host whose kernel counts in ticks of length `tick`; `phases` draws
    /// the phases of ticks.
    pub(crate) fn new(tick: Duration, phases: Random) -> Self {
        Self {
            ticks: Ticks::new(tick, phases),
            connections: BTreeMap::new(),
            due: BTreeSet::new(),
            ended: TcpTimerStats::default(),
            longest_idle: Duration::ZERO,
            last_sent: None,
        }
    }

    /// Processes a segment that the host's kernel has sent. `copy` is present if
    /// [`Segment::needs_copy`] is true; the round-trip time counts from `since`.
    pub(crate) fn handle_sent(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        copy: Option<(C, Instant<Virtual>)>,
        out: &mut Vec<Action<C>>,
    ) -> Fate {
        let connection = segment.connection;
        let is_new = |flow: &Flow<C>| {
            let sending = flow.sending.as_ref();
            sending.is_some_and(|sending| sending.is_superseded_by(segment))
        };
        if segment.has(Segment::RST) || self.connections.get(&connection).is_some_and(is_new) {
            self.forget(connection, out);
        }
        if segment.has(Segment::RST) {
            out.extend(copy.map(|(copy, _)| Action::Forget(copy)));
            return Fate::Pass;
        }
        if copy.is_none() && !self.connections.contains_key(&connection) {
            return Fate::Pass; // a late segment of a closed connection
        }
        let flow = self.connections.entry(connection);
        let flow = flow.or_insert_with(|| Flow::new(now));
        flow.use_at(now, &mut self.longest_idle);
        flow.news = Some(segment.news());
        if segment.has(Segment::SYN) {
            flow.scale = Some(segment.scale.unwrap_or(0));
        }
        flow.has_sent_fin |= segment.has(Segment::FIN);
        let fate = flow.receiving.handle_sent(now, segment, out);
        if let Some(copy) = copy {
            let sending = flow.sending.get_or_insert_with(|| Sending::new(segment));
            let resent = sending.resent();
            sending.handle_sent(now, segment, copy, &mut self.ticks, out);
            let resends = sending.resent() > resent;
            self.last_sent = Some(SentSegment {
                ends: [connection.local, connection.remote],
                resent: resends.then(|| (segment.seq, segment.end())),
            });
        }
        self.set_due(connection, out);
        fate
    }

    /// Holds a segment back, as [`TcpTimers::handle_sent`] requested.
    pub(crate) fn hold(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        content: C,
        out: &mut Vec<Action<C>>,
    ) {
        let flow = self.connections.get_mut(&segment.connection);
        let flow = flow.expect("it is known by what it has sent");
        flow.receiving
            .hold(now, segment, content, &mut self.ticks, out);
        self.set_due(segment.connection, out);
    }

    /// Processes a segment that has arrived for the host. `stamps` contains the instant at which
    /// the segment was sent and, if known, the instant at which the segment with the echoed time
    /// stamp was sent ([`TcpTimers::echo_at`] of the sender's timers).
    pub(crate) fn handle_received(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        stamps: (Instant<Virtual>, Option<Instant<Virtual>>),
        out: &mut Vec<Action<C>>,
    ) {
        let connection = segment.connection.reversed();
        if segment.has(Segment::RST) {
            if self
                .connections
                .get(&connection)
                .is_some_and(|it| it.obeys(segment))
            {
                self.forget(connection, out);
            }
            return;
        }
        if segment.is_opening() {
            // The host's answer will echo the time stamp of this segment.
            let flow = self.connections.entry(connection);
            flow.or_insert_with(|| Flow::new(now));
        }
        let flow = self.connections.get_mut(&connection);
        let Some(flow) = flow.filter(|flow| flow.admits(segment)) else {
            return;
        };
        flow.use_at(now, &mut self.longest_idle);
        flow.has_received_fin |= segment.has(Segment::FIN);
        flow.receiving.handle_received(now, segment, stamps.0);
        if let Some(sending) = flow.sending.as_mut().filter(|_| segment.has(Segment::ACK)) {
            sending.handle_ack(now, segment, stamps.1, &mut self.ticks, out);
            flow.has_gaps |= !segment.sack.is_empty();
        }
        self.set_due(connection, out);
    }

    /// Returns the content of a segment that has arrived, if the peer of its connection has ever
    /// acknowledged data beyond a gap.
    pub(crate) fn acknowledgement(&self, segment: &Segment) -> Option<Acknowledgement> {
        let connection = segment.connection.reversed();
        let flow = self.connections.get(&connection)?;
        let sending = flow.sending.as_ref().filter(|_| flow.has_gaps)?;
        Some(Acknowledgement {
            ends: [connection.local, connection.remote],
            ack: segment.ack,
            sack: segment.sack,
            may_repair: sending.may_repair(),
        })
    }

    /// Returns the instant at which a time stamp was sent, given that the host echoed it in a
    /// segment at `at`. `None` if that instant is unknown.
    pub(crate) fn echo_at(
        &self,
        segment: &Segment,
        at: Instant<Virtual>,
    ) -> Option<Instant<Virtual>> {
        self.connections
            .get(&segment.connection)?
            .receiving
            .echo_at(at)
    }

    /// Returns header fields of the last segment that the host sent on the connection of `segment`.
    pub(crate) fn news(&self, segment: &Segment) -> Option<News> {
        self.connections.get(&segment.connection)?.news
    }

    /// Returns the instant at which the next timer expires; `None` if no timer is set.
    pub(crate) fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Processes all expired timers, and appends actions to `out`.
    pub(crate) fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Vec<Action<C>>) {
        while let Some(&(due, connection)) = self.due.first().filter(|(due, _)| *due <= now) {
            let Some(flow) = self.connections.get_mut(&connection) else {
                self.due.remove(&(due, connection));
                continue;
            };
            if let Some(sending) = &mut flow.sending {
                sending.handle_wake(now, &mut self.ticks, out);
            }
            flow.receiving.handle_wake(now, out);
            self.set_due(connection, out);
        }
    }

    /// Removes and returns the segment that the host's kernel has sent last; `None` if it was
    /// returned before.
    pub(crate) fn take_sent(&mut self) -> Option<SentSegment> {
        self.last_sent.take()
    }

    /// Returns the activity of all connections together, until `now`.
    pub(crate) fn stats(&self, now: Instant<Virtual>) -> TcpTimerStats {
        let mut all = self.ended;
        let open = self
            .connections
            .values()
            .filter(|it| !it.has_sent_fin && !it.has_received_fin);
        let idle = open.map(|flow| now - flow.used).max();
        all.longest_idle = self.longest_idle.max(idle.unwrap_or(Duration::ZERO));
        let sending = self
            .connections
            .values()
            .filter_map(|it| it.sending.as_ref());
        sending.for_each(|sending| all.add(&sending.stats()));
        all
    }

    /// Updates the expiry of a connection's next timer, or removes a connection that has ended.
    fn set_due(&mut self, connection: Connection, out: &mut Vec<Action<C>>) {
        let Some(flow) = self.connections.get_mut(&connection) else {
            return;
        };
        if flow.is_over() {
            return self.forget(connection, out);
        }
        let next = flow.next_wake();
        let before = core::mem::replace(&mut flow.due, next);
        if before != next {
            before.map(|due| self.due.remove(&(due, connection)));
            next.map(|due| self.due.insert((due, connection)));
        }
    }

    fn forget(&mut self, connection: Connection, out: &mut Vec<Action<C>>) {
        let Some(mut flow) = self.connections.remove(&connection) else {
            return;
        };
        flow.due.map(|due| self.due.remove(&(due, connection)));
        flow.receiving.clear(out);
        if let Some(mut sending) = flow.sending {
            sending.clear(out);
            self.ended.add(&sending.stats());
        }
    }
}

/// Bytes of the largest window (RFC 7323, section 2.3).
const GREATEST_WINDOW: u32 = 1 << 30;
