//! Timers of a kernel's TCP, kept in virtual time.
//!
//! Where virtual time jumps, a kernel's own timers are of no use: they run in real time, of
//! which next to none passes. So they are set far away, and the network does in virtual time
//! what they would have done. At the port of each host it keeps a copy of every segment that
//! is not acknowledged, and sends it again at the instant at which the kernel would: a SYN, a
//! SYN-ACK, a lost tail, a FIN, data after a timeout. The kernel acknowledges at once;
//! acknowledgements that Linux would delay are held back. A question for a neighbour (ARP,
//! neighbour discovery) that is lost is asked again, too.
//!
//! The kernel does not notice: its congestion window does not collapse after a timeout. That
//! matters where timeouts are frequent among the segments of a flow, which is counted
//! ([`TcpTimerStats`]).
//!
//! The state machines here are generic in what a copy is, know no links, and do no I/O. They
//! are what Linux 6.18 does with its default settings.

mod estimator;
mod neighbours;
mod receiving;
mod segment;
mod sending;
#[cfg(test)]
mod tests;
mod ticks;

use std::collections::{BTreeMap, BTreeSet};

use timeloom_time::{Duration, Instant, Virtual};

pub(crate) use neighbours::{Neighbours, Word};
pub(crate) use receiving::Fate;
use receiving::Receiving;
use segment::Connection;
pub(crate) use segment::{News, Segment};
use sending::Sending;
use ticks::Ticks;

/// What the timers of one host's kernel have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpTimerStats {
    /// Segments that the host's kernel has sent first.
    pub segments: u64,
    /// Segments that the host's kernel has sent again by itself, found lost by acknowledgements.
    pub resent: u64,
    /// Timeouts of retransmission, of connections being opened as well.
    pub timeouts: u64,
    /// Of those, the first of a row that found more than three segments on their way: the
    /// kernel's congestion window would have collapsed, and did not.
    pub collapses: u64,
    /// Probes of a lost tail.
    pub probes: u64,
    /// Connections that were sent again as often as Linux does, and for which it would have
    /// told the program so (ETIMEDOUT).
    pub given_up: u64,
    /// Acknowledgements of what the host has never sent.
    pub foreign: u64,
    /// Neighbours that were asked for as often as Linux does, and did not answer.
    pub unresolved: u64,
}

impl TcpTimerStats {
    /// Adds those of another host.
    pub fn add(&mut self, other: &Self) {
        self.segments += other.segments;
        self.resent += other.resent;
        self.timeouts += other.timeouts;
        self.collapses += other.collapses;
        self.probes += other.probes;
        self.given_up += other.given_up;
        self.foreign += other.foreign;
        self.unresolved += other.unresolved;
    }
}

/// What is to be done with packets that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<C> {
    /// Sends the segment of this number of a copy, which stays.
    Again(C, u32),
    /// Sends what was held back.
    Release(C),
    /// Drops a copy.
    Forget(C),
}

/// Timers of the TCP of one host.
#[derive(Debug)]
pub(crate) struct TcpTimers<C> {
    ticks: Ticks,
    connections: BTreeMap<Connection, Flow<C>>,
    due: BTreeSet<(Instant<Virtual>, Connection)>,
    /// Of connections that are over.
    ended: TcpTimerStats,
}

#[derive(Debug)]
struct Flow<C> {
    /// `None` before the host's kernel has sent something of its own.
    sending: Option<Sending<C>>,
    receiving: Receiving<C>,
    /// Of the last segment that the host has sent.
    news: Option<News>,
    has_sent_fin: bool,
    has_received_fin: bool,
    due: Option<Instant<Virtual>>,
}

impl<C: Copy> Flow<C> {
    fn new() -> Self {
        Self {
            sending: None,
            receiving: Receiving::new(),
            news: None,
            has_sent_fin: false,
            has_received_fin: false,
            due: None,
        }
    }

    fn next_wake(&self) -> Option<Instant<Virtual>> {
        let sending = self.sending.as_ref().and_then(Sending::next_wake);
        sending.into_iter().chain(self.receiving.next_wake()).min()
    }

    fn is_over(&self) -> bool {
        let sent = self.sending.as_ref().is_none_or(Sending::is_done);
        self.has_sent_fin && self.has_received_fin && sent && self.receiving.next_wake().is_none()
    }
}

impl<C: Copy> TcpTimers<C> {
    /// Makes those of host number `host`, whose kernel's timers count in ticks of this length.
    pub(crate) fn new(tick: Duration, host: u32) -> Self {
        Self {
            ticks: Ticks::new(tick, host),
            connections: BTreeMap::new(),
            due: BTreeSet::new(),
            ended: TcpTimerStats::default(),
        }
    }

    /// Takes a segment that the host's kernel sends, with a copy where it needs one
    /// ([`Segment::needs_copy`]) and the instant since when it has waited to be sent.
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
            return Fate::Pass; // the last words of one that is over
        }
        let flow = self.connections.entry(connection);
        let flow = flow.or_insert_with(Flow::new);
        flow.news = Some(segment.news());
        flow.has_sent_fin |= segment.has(Segment::FIN);
        let fate = flow.receiving.handle_sent(now, segment, out);
        if let Some(copy) = copy {
            let sending = flow.sending.get_or_insert_with(|| Sending::new(segment));
            sending.handle_sent(now, segment, copy, &mut self.ticks, out);
        }
        self.set_due(connection, out);
        fate
    }

    /// Holds a segment back for which [`TcpTimers::handle_sent`] asked for that.
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

    /// Takes a segment that has come for the host; `stamps`: the instant at which it was sent,
    /// and the one of what it echoes, if that is known ([`TcpTimers::echo_at`], of its sender).
    pub(crate) fn handle_received(
        &mut self,
        now: Instant<Virtual>,
        segment: &Segment,
        stamps: (Instant<Virtual>, Option<Instant<Virtual>>),
        out: &mut Vec<Action<C>>,
    ) {
        let connection = segment.connection.reversed();
        if segment.has(Segment::RST) {
            return self.forget(connection, out);
        }
        if segment.is_opening() {
            // The answer echoes its stamp.
            let flow = self.connections.entry(connection);
            flow.or_insert_with(Flow::new);
        }
        let Some(flow) = self.connections.get_mut(&connection) else {
            return;
        };
        flow.has_received_fin |= segment.has(Segment::FIN);
        flow.receiving.handle_received(now, segment, stamps.0);
        if let Some(sending) = flow.sending.as_mut().filter(|_| segment.has(Segment::ACK)) {
            sending.handle_ack(now, segment, stamps.1, &mut self.ticks, out);
        }
        self.set_due(connection, out);
    }

    /// Returns what a segment echoes that the host has sent at an instant: the one at which what
    /// it answers was sent.
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

    /// Returns what the last segment said that the host has sent on the connection of `segment`.
    pub(crate) fn news(&self, segment: &Segment) -> Option<News> {
        self.connections.get(&segment.connection)?.news
    }

    /// Returns the instant of the next timer.
    pub(crate) fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Does what is due.
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

    /// Sums what all timers have done.
    pub(crate) fn stats(&self) -> TcpTimerStats {
        let mut all = self.ended;
        let sending = self
            .connections
            .values()
            .filter_map(|it| it.sending.as_ref());
        sending.for_each(|sending| all.add(&sending.stats));
        all
    }

    /// Takes note of when a connection is due next, or that it is over.
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
            self.ended.add(&sending.stats);
        }
    }
}
