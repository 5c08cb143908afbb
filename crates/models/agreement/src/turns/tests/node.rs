//! A node that uses [`TurnOrder`] as a process of a run does, and the faults that the tests give
//! it.

use std::collections::{BTreeMap, BTreeSet};

use super::ns;
use super::program::{Event, Program, caused};
use crate::turns::{EventKey, Turn, TurnEnd, TurnOrder};
use timeloom_time::{Instant, Virtual};

/// Fault of the nodes. The search must find each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The end of a turn is applied on arrival, even if that of an earlier turn is missing.
    EndsOnArrival,
    /// The end of a turn does not announce the messages.
    Unannounced,
    /// Messages follow the end of the turn in which they were sent.
    MessagesAfterEnd,
    /// All events of an instant have one rank.
    NoRank,
    /// The lookahead exceeds the delay of a message by one nanosecond.
    TooMuchLookahead,
    /// A node does not stop before the arrivals of messages that it has sent in the same turn.
    PassesOwnMessages,
    /// Messages that arrive at one instant are taken in the order of their reception.
    OrderOfReception,
    /// The announced next event is the next one that the node scheduled itself.
    OwnEventsOnly,
    /// A node leaves without a word.
    LeavesSilently,
}

/// Part of a stream between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Frame {
    Message(Event),
    End(TurnEnd),
}

/// Result of one step of a node that has the turn.
pub(super) struct Step {
    /// Event that the node performed; `None` if the node ended its turn.
    pub(super) event: Option<Event>,
    /// Frames for other nodes, in the order of sending.
    pub(super) frames: Vec<(usize, Frame)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    me: usize,
    count: usize,
    pub(super) turns: TurnOrder,
    /// Local events and received messages.
    queue: BTreeSet<Event>,
    /// Earliest arrival of the messages of this turn, by receiver.
    sent: BTreeMap<usize, Instant<Virtual>>,
    /// Messages that a flawed node sends after the end of the turn.
    kept: Vec<(usize, Frame)>,
    /// Virtual time of the node.
    clock: Instant<Virtual>,
    /// Number of events that the node has performed.
    pub(super) done: usize,
    /// Number of the next event that the node causes.
    number: u32,
    received: u32,
    pub(super) has_left: bool,
}

impl Node {
    pub(super) fn new(me: usize, program: &impl Program, flaw: Option<Flaw>) -> Self {
        let count = program.nodes();
        let more = i64::from(flaw == Some(Flaw::TooMuchLookahead));
        Self {
            me,
            count,
            turns: TurnOrder::new(me, count, ns(program.lookahead() + more)),
            queue: program.first_of(me),
            sent: BTreeMap::new(),
            kept: Vec::new(),
            clock: Instant::ZERO,
            done: 0,
            number: program.first().len() as u32,
            received: 0,
            has_left: false,
        }
    }

    /// Returns the node's right to act.
    fn turn(&self, flaw: Option<Flaw>) -> Option<Turn> {
        let mut turns = self.turns.clone();
        if flaw != Some(Flaw::PassesOwnMessages) {
            for (&to, &at) in &self.sent {
                turns.note_sent(to, at);
            }
        }
        turns.mine()
    }

    /// Performs the node's next event, or ends the turn. Returns `None` if another node has the
    /// turn, and a text if the event is late.
    pub(super) fn act(
        &mut self,
        program: &impl Program,
        flaw: Option<Flaw>,
    ) -> Result<Option<Step>, String> {
        let Some(turn) = self.turn(flaw) else {
            return Ok(None);
        };
        if self.has_left && flaw == Some(Flaw::LeavesSilently) && self.sent.is_empty() {
            return Ok(None);
        }
        let first = self.queue.first().copied();
        match first.filter(|event| turn.allows(position(event, flaw))) {
            Some(event) => self.perform(event, program, flaw).map(Some),
            None => self.end(turn, flaw).map(Some),
        }
    }

    fn perform(
        &mut self,
        event: Event,
        program: &impl Program,
        flaw: Option<Flaw>,
    ) -> Result<Step, String> {
        self.queue.remove(&event);
        if event.key.at < self.clock {
            return Err(format!("{event:?} is late at {:?}", self.clock));
        }
        self.clock = event.key.at;
        self.done += 1;
        let mut frames = Vec::new();
        for effect in program.effects(&event) {
            match caused(&event, effect, &mut self.number) {
                None => self.has_left = true,
                Some(next) if next.node == self.me => _ = self.queue.insert(next),
                Some(message) => {
                    let at = message.key.at;
                    let earliest = self.sent.entry(message.node).or_insert(at);
                    *earliest = at.min(*earliest);
                    frames.push((message.node, Frame::Message(message)));
                }
            }
        }
        if self.has_left {
            self.queue.clear();
        }
        if flaw == Some(Flaw::MessagesAfterEnd) {
            self.kept.append(&mut frames);
        }
        let event = Some(event);
        Ok(Step { event, frames })
    }

    fn end(&mut self, turn: Turn, flaw: Option<Flaw>) -> Result<Step, String> {
        let own_only = flaw == Some(Flaw::OwnEventsOnly);
        let mut queue = self.queue.iter();
        let next = queue.find(|event| !own_only || event.origin == self.me);
        let next = next.map(|event| position(event, flaw));
        let way = next.map_or(turn.until(), |next| next.at.min(turn.until()));
        self.clock = self.clock.max(way);
        let mut sent = std::mem::take(&mut self.sent);
        if flaw == Some(Flaw::Unannounced) {
            sent.clear();
        }
        let leaves = self.has_left && flaw != Some(Flaw::LeavesSilently);
        for (to, at) in sent {
            self.turns.note_sent(to, at);
        }
        let end = self.turns.hand_over(next, leaves);
        let end = end.ok_or("a node that has the turn cannot end it")?;
        let others = (0..self.count).filter(|to| *to != self.me);
        let mut frames: Vec<_> = others.map(|to| (to, Frame::End(end.clone()))).collect();
        frames.append(&mut self.kept);
        let event = None;
        Ok(Step { event, frames })
    }

    /// Processes a frame. Returns a text if it violates the protocol, or comes too late.
    pub(super) fn receive(
        &mut self,
        from: usize,
        frame: Frame,
        flaw: Option<Flaw>,
    ) -> Result<(), String> {
        match frame {
            Frame::Message(_) if self.has_left => {}
            Frame::Message(mut message) => {
                if message.key.at < self.clock {
                    return Err(format!("{message:?} is late at {:?}", self.clock));
                }
                self.received += 1;
                if flaw == Some(Flaw::OrderOfReception) {
                    (message.origin, message.number) = (self.count, self.received);
                }
                self.queue.insert(message);
            }
            Frame::End(mut end) => {
                if flaw == Some(Flaw::EndsOnArrival) {
                    end.turn = self.turns.turn;
                }
                let heard = self.turns.heard(from, end);
                heard.map_err(|fault| format!("node {}: {fault}", self.me))?;
            }
        }
        Ok(())
    }

    /// Returns true if the node has nothing left to do.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.sent.is_empty() && self.turns.holder().is_none()
    }
}

fn position(event: &Event, flaw: Option<Flaw>) -> EventKey {
    let has_rank = flaw != Some(Flaw::NoRank);
    let rank = if has_rank { event.key.rank } else { 0 };
    EventKey { rank, ..event.key }
}
