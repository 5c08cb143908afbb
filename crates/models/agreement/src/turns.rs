//! Order of the events of several nodes whose clocks move only from event to event.
//!
//! The nodes take turns: only the node with the earliest event acts, until its next event is no
//! longer the earliest. It then hands the turn over with a [`TurnEnd`], which states its next
//! event, and the arrivals of the messages that it has sent to others meanwhile. Every node applies
//! the ends of all turns in their order, so all of them know which node has the next turn, without
//! a master and without a further message. The events of all nodes happen in one order, which is
//! that of a single machine, and which depends neither on the speed of the nodes nor on the network
//! between them.
//!
//! If every message takes at least the *lookahead* to arrive, the node may act for that much longer
//! than the earliest event of the others: no message to it can arrive sooner. Nodes that may still
//! send messages without a delay are not *settled*, and the lookahead counts only once all are.
//!
//! The streams between nodes must be reliable and ordered. Messages and the end of the turn in
//! which they were sent use the same stream, so a node that has the turn has received all messages
//! that were sent to it before.

use std::collections::BTreeMap;

use timeloom_time::{Duration, Instant, Virtual};

/// Position of an event in the order of all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey {
    /// Virtual instant of the event.
    pub at: Instant<Virtual>,
    /// Order among the events of one instant: arrivals of messages have rank 0, and programs the
    /// rank of their host.
    pub rank: u32,
}

impl EventKey {
    /// Returns the position of a message's arrival at `at`.
    pub fn arrival(at: Instant<Virtual>) -> Self {
        Self { at, rank: 0 }
    }
}

/// End of a turn, for all other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TurnEnd {
    /// Number of the turn.
    pub turn: u64,
    /// Next event of the node that had the turn; `None` if it will have none by itself.
    pub next: Option<EventKey>,
    /// Earliest arrival of the messages that the node has sent in this turn, by receiver.
    pub sent: BTreeMap<usize, Instant<Virtual>>,
    /// True if the node acts no more. Messages to it have no effect.
    pub leaves: bool,
    /// True if the messages of the node's later turns take at least the lookahead.
    pub is_settled: bool,
}

/// Right of a node to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Earliest event of any other node, with the number of that node; `None` if no other node has
    /// an event.
    rival: Option<(EventKey, usize)>,
    me: usize,
    lookahead: Duration,
    /// Last instant of events; see [`TurnOrder::stop_at`].
    stop: Instant<Virtual>,
}

impl Turn {
    /// Returns true if the node may perform its event at this position.
    pub fn allows(&self, event: EventKey) -> bool {
        let is_next = |rival| (event, self.me) < rival;
        let is_ahead = |rival: (EventKey, usize)| event.at < rival.0.at + self.lookahead;
        event.at <= self.stop && self.rival.is_none_or(|it| is_next(it) || is_ahead(it))
    }

    /// Returns the last instant to which the node's clock may move, if nothing happens on the way.
    pub fn until(&self) -> Instant<Virtual> {
        let Some((rival, _)) = self.rival else {
            return self.stop;
        };
        let until = match self.lookahead > Duration::ZERO {
            true => rival.at + self.lookahead - Duration::from_ns(1),
            false => rival.at,
        };
        until.min(self.stop)
    }
}

/// Violation of the protocol by another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnFault {
    /// The node ended a turn of another node.
    #[error("node {node} ended turn {turn}, which was not its own")]
    NotItsTurn {
        /// Number of the node that sent the end.
        node: usize,
        /// Number of the turn.
        turn: u64,
    },
    /// The node's next event precedes the turn, or a message arrives sooner than messages can.
    #[error("node {node} announced an event that is too early for its turn {turn}")]
    Past {
        /// Number of the node.
        node: usize,
        /// Number of the turn.
        turn: u64,
    },
    /// The node announced a message to a node that does not exist.
    #[error("node {node} announced a message to node {to}, which does not exist")]
    NoSuchNode {
        /// Number of the node.
        node: usize,
        /// Number of the receiver.
        to: usize,
    },
    /// The end of this turn has arrived before, or precedes that of the present turn by too much.
    #[error("node {node} sent the end of turn {turn} out of order")]
    OutOfOrder {
        /// Number of the node.
        node: usize,
        /// Number of the turn.
        turn: u64,
    },
}

/// One node's knowledge of the order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TurnOrder {
    me: usize,
    nodes: Vec<Node>,
    /// Number of the present turn.
    turn: u64,
    /// Instant of the earliest event of all nodes, when the present turn began.
    since: Instant<Virtual>,
    /// Earliest arrivals of the messages that this node has sent in its present turn, by receiver.
    sent: BTreeMap<usize, Instant<Virtual>>,
    /// Ends of later turns, which arrived before the end of the present one, by turn and sender.
    early: BTreeMap<(u64, usize), TurnEnd>,
    lookahead: Duration,
    /// True if this node is settled from the end of its present turn on.
    settles: bool,
    /// Last instant of events of this node.
    stop: Instant<Virtual>,
    /// Position that this node has announced when it came to the stop; `None` before.
    at_stop: Option<EventKey>,
}

/// Next event of a node, as all nodes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    next: Option<EventKey>,
    has_left: bool,
    is_settled: bool,
}

impl TurnOrder {
    /// Returns the state of node `me` of `count` nodes before the first turn. Every node has an
    /// event at virtual time zero. A message takes at least `lookahead` to arrive.
    pub fn new(me: usize, count: usize, lookahead: Duration) -> Self {
        let first = EventKey::arrival(Instant::ZERO);
        let node = Node {
            next: Some(first),
            has_left: false,
            is_settled: true,
        };
        Self {
            me,
            nodes: vec![node; count],
            turn: 0,
            since: first.at,
            sent: BTreeMap::new(),
            early: BTreeMap::new(),
            lookahead,
            settles: true,
            stop: Instant::FAR_FUTURE,
            at_stop: None,
        }
    }

    /// Returns this state with these nodes not settled: their messages may arrive without a delay.
    /// All nodes must start with the same ones.
    pub fn with_unsettled(mut self, nodes: impl IntoIterator<Item = usize>) -> Self {
        for node in nodes {
            self.nodes[node].is_settled = false;
        }
        self.settles = self.nodes[self.me].is_settled;
        self
    }

    /// States that from this node's next turn on, its messages take at least the lookahead.
    pub fn settle(&mut self) {
        self.settles = true;
    }

    /// Returns the lookahead in force.
    fn lookahead(&self) -> Duration {
        match self.nodes.iter().all(|node| node.is_settled) {
            true => self.lookahead,
            false => Duration::ZERO,
        }
    }

    /// Returns the number of the node that has the turn; `None` if no node has an event.
    pub fn holder(&self) -> Option<usize> {
        self.first_but(None).map(|(_, node)| node)
    }

    /// Returns this node's right to act; `None` if another node has the turn. It ends before the
    /// messages arrive that the node has sent in this turn: their receivers may answer.
    pub fn mine(&self) -> Option<Turn> {
        let arrivals = self.sent.iter();
        let arrivals = arrivals.map(|(&to, &at)| (EventKey::arrival(at), to));
        // If this node has come to the stop, and no message has arrived for it since, so have all
        // others.
        let stands = self.at_stop.is_some() && self.at_stop == self.nodes[self.me].next;
        let has_turn = self.holder() == Some(self.me) && !stands;
        has_turn.then(|| Turn {
            rival: arrivals.chain(self.first_but(Some(self.me))).min(),
            me: self.me,
            lookahead: self.lookahead(),
            stop: self.stop.max(self.since),
        })
    }

    /// Records that this node has sent a message in its present turn, which arrives at node `to` at
    /// `arrival`. A message to itself, or to a node that does not exist, has no effect.
    pub fn note_sent(&mut self, to: usize, arrival: Instant<Virtual>) {
        if to != self.me && to < self.nodes.len() {
            let arrival = arrival.max(self.since + self.lookahead());
            let earliest = self.sent.entry(to).or_insert(arrival);
            *earliest = (*earliest).min(arrival);
        }
    }

    /// Lets no event after `at` happen on this node until the next call; `None` lets all happen. If
    /// all nodes have the same stop, all stand once the last of them has come to it. No node may
    /// act between the calls on all nodes.
    pub fn stop_at(&mut self, at: Option<Instant<Virtual>>) {
        self.stop = at.unwrap_or(Instant::FAR_FUTURE);
        self.at_stop = None;
    }

    /// Returns the instant to which the clock of this node may move while another node has the
    /// turn: nothing happens on any node before. `None` if this node has the turn.
    pub fn idle_until(&self) -> Option<Instant<Virtual>> {
        let own = self.nodes[self.me].next;
        let before = own.map(|own| own.at - Duration::from_ns(1));
        let until = before.map_or(self.since, |before| before.min(self.since));
        (self.holder() != Some(self.me)).then_some(until.min(self.stop))
    }

    /// Returns true if the node acts no more.
    pub fn has_left(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| node.has_left)
    }

    /// Returns the instant of the earliest event of all nodes, when the present turn began.
    pub fn since(&self) -> Instant<Virtual> {
        self.since
    }

    /// Returns the earliest event of all nodes; `None` if there is none.
    pub fn next_event(&self) -> Option<Instant<Virtual>> {
        self.first_but(None).map(|(key, _)| key.at)
    }

    /// Returns the earliest event of all nodes but this one; `None` if there is none.
    pub fn next_of_others(&self) -> Option<Instant<Virtual>> {
        self.first_but(Some(self.me)).map(|(key, _)| key.at)
    }

    /// Ends this node's turn. `next` is its next event; an instant before the turn counts as the
    /// beginning of the turn, since a host's clock may round differently. `leaves` is true if the
    /// node acts no more. Returns the message for all other nodes; `None`, without effect, if
    /// another node has the turn.
    pub fn hand_over(&mut self, next: Option<EventKey>, leaves: bool) -> Option<TurnEnd> {
        self.mine()?;
        // The node may have recorded a message before its turn.
        let soonest = self.since + self.lookahead();
        let sent = std::mem::take(&mut self.sent).into_iter();
        let sent = sent.map(|(to, at)| (to, at.max(soonest))).collect();
        // A stop before the turn takes effect after the events of the turn's first instant.
        let end_of_stop = EventKey {
            at: self.stop.max(self.since),
            rank: u32::MAX,
        };
        let comes_to_stop = next.is_some_and(|next| next > end_of_stop);
        let next = next.map(|next| next.min(end_of_stop));
        let next = next.map(|EventKey { at, rank }| EventKey {
            at: at.max(self.since),
            rank,
        });
        self.at_stop = next.filter(|_| comes_to_stop);
        let end = TurnEnd {
            turn: self.turn,
            next,
            sent,
            leaves,
            is_settled: self.settles,
        };
        self.apply(self.me, &end);
        Some(end)
    }

    /// Processes the end of a turn of another node. Ends of later turns may arrive before it, since
    /// they come by other streams.
    ///
    /// # Errors
    /// Returns the violation of the protocol, if there is one; the node must then stop.
    pub fn heard(&mut self, node: usize, end: TurnEnd) -> Result<(), TurnFault> {
        let turn = end.turn;
        if let Some(&to) = end.sent.keys().find(|to| **to >= self.nodes.len()) {
            return Err(TurnFault::NoSuchNode { node, to });
        }
        let ahead = turn.checked_sub(self.turn);
        let is_near = ahead.is_some_and(|ahead| ahead < MOST_AHEAD);
        if !is_near || self.early.insert((turn, node), end).is_some() {
            return Err(TurnFault::OutOfOrder { node, turn });
        }
        while let Some((&(turn, node), _)) = self.early.first_key_value()
            && turn == self.turn
        {
            let end = self.early.remove(&(turn, node));
            let end = end.expect("it is the first");
            if self.holder() != Some(node) || node == self.me {
                return Err(TurnFault::NotItsTurn { node, turn });
            }
            let soonest = self.since + self.lookahead();
            let is_past = end.next.is_some_and(|next| next.at < self.since)
                || end.sent.values().any(|at| *at < soonest);
            if is_past {
                return Err(TurnFault::Past { node, turn });
            }
            self.apply(node, &end);
        }
        Ok(())
    }

    fn apply(&mut self, node: usize, end: &TurnEnd) {
        self.nodes[node] = Node {
            next: end.next.filter(|_| !end.leaves),
            has_left: end.leaves,
            is_settled: end.is_settled,
        };
        for (&to, &at) in &end.sent {
            let there = &mut self.nodes[to];
            let arrival = EventKey::arrival(at);
            if !there.has_left {
                there.next = Some(there.next.map_or(arrival, |next| next.min(arrival)));
            }
        }
        self.turn = self.turn.saturating_add(1);
        if let Some(next) = self.next_event() {
            self.since = self.since.max(next);
        }
    }

    /// Returns the earliest event of all nodes but `but`, with the number of its node. Of events at
    /// the same position, that of the node with the lower number comes first.
    fn first_but(&self, but: Option<usize>) -> Option<(EventKey, usize)> {
        let nodes = self.nodes.iter().enumerate();
        let others = nodes.filter(|(number, _)| Some(*number) != but);
        let events = others.filter_map(|(number, node)| Some((node.next?, number)));
        events.min()
    }
}

/// Number of turns by which the end of a turn may precede that of the present one. Only a node that
/// breaks the protocol, or a stream that stands for long, leads to more.
const MOST_AHEAD: u64 = 1 << 16;

#[cfg(test)]
mod tests;
