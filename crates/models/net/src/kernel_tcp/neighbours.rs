//! Questions for neighbours that a host's kernel asks, asked again while no answer comes
//! (Linux, net/core/neighbour.c).

use std::collections::BTreeMap;
use std::net::IpAddr;

use timeloom_time::{Duration, Instant, Virtual};

use super::Action;
use super::ticks::Ticks;
use crate::bytes::{ArpMessage, NdMessage};

/// Questions of one host that have no answer yet.
#[derive(Debug)]
pub(crate) struct Neighbours<C> {
    ticks: Ticks,
    questions: BTreeMap<IpAddr, Question<C>>,
    /// Since when the last neighbour that answered was asked for, and when it answered.
    answered: Option<[Instant<Virtual>; 2]>,
    /// Neighbours that did not answer at all.
    pub(crate) unresolved: u64,
}

#[derive(Debug)]
struct Question<C> {
    copy: C,
    since: Instant<Virtual>,
    asked: u32,
    due: Instant<Virtual>,
}

/// What a message between neighbours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Asks(IpAddr),
    Tells(IpAddr),
}

impl Word {
    /// Reads an ARP message; one that announces its own sender tells.
    pub(crate) fn of_arp(bytes: &[u8]) -> Option<Self> {
        let message = ArpMessage::read(bytes)?;
        let asks = message.is_request && message.sender != message.target;
        Some(match asks && !message.sender.is_unspecified() {
            true => Self::Asks(message.target.into()),
            false => Self::Tells(message.sender.into()),
        })
    }

    /// Reads a message of neighbour discovery, from the IP header on.
    pub(crate) fn of_nd(packet: &[u8]) -> Option<Self> {
        let message = NdMessage::read(packet)?;
        Some(match (message.is_request, message.src.is_unspecified()) {
            (true, false) => Self::Asks(message.target.into()),
            // An address is about to be used.
            (true, true) => Self::Tells(message.src.into()),
            (false, _) => Self::Tells(message.target.into()),
        })
    }

    /// What it tells a host that receives it.
    fn sender(self, packet_from: Option<IpAddr>) -> Option<IpAddr> {
        match self {
            Self::Tells(address) => Some(address),
            Self::Asks(_) => packet_from,
        }
    }
}

/// How long a kernel may take for that.
const AT_ONCE: Duration = Duration::from_ms(2);
/// mcast_solicit, and retrans_time_ms.
const QUESTIONS: u32 = 3;
const EVERY: Duration = Duration::from_s(1);

impl<C: Copy> Neighbours<C> {
    pub(crate) fn new(tick: Duration, host: u32) -> Self {
        Self {
            ticks: Ticks::new(tick, !host),
            questions: BTreeMap::new(),
            answered: None,
            unresolved: 0,
        }
    }

    /// The host's kernel asks for an address.
    pub(crate) fn handle_question(
        &mut self,
        now: Instant<Virtual>,
        address: IpAddr,
        copy: C,
        out: &mut Vec<Action<C>>,
    ) {
        if self.questions.contains_key(&address) {
            return out.push(Action::Forget(copy));
        }
        let due = self.ticks.expiration(now, EVERY);
        let (since, asked) = (now, 1);
        self.questions.insert(
            address,
            Question {
                copy,
                since,
                asked,
                due,
            },
        );
    }

    /// A neighbour has spoken to the host.
    pub(crate) fn handle_received(
        &mut self,
        now: Instant<Virtual>,
        word: Word,
        packet_from: Option<IpAddr>,
        out: &mut Vec<Action<C>>,
    ) {
        let known = word.sender(packet_from);
        let question = known.and_then(|known| self.questions.remove(&known));
        if let Some(question) = question {
            self.answered = Some([question.since, now]);
            out.push(Action::Forget(question.copy));
        }
    }

    /// Returns since when a packet has waited that the host sends now: as soon as a neighbour has
    /// answered, its kernel sends what it had for it.
    pub(crate) fn waited_since(&self, now: Instant<Virtual>) -> Option<Instant<Virtual>> {
        let [since, answered] = self.answered?;
        (now - answered <= AT_ONCE).then_some(since)
    }

    pub(crate) fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.questions.values().map(|question| question.due).min()
    }

    /// Asks again where no answer has come.
    pub(crate) fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Vec<Action<C>>) {
        let (ticks, unresolved) = (&mut self.ticks, &mut self.unresolved);
        self.questions.retain(|_, question| {
            if question.due > now {
                return true;
            }
            let is_last = question.asked >= QUESTIONS;
            if is_last {
                *unresolved += 1;
                out.push(Action::Forget(question.copy));
            } else {
                question.asked += 1;
                question.due = ticks.expiration(now, EVERY);
                out.push(Action::Again(question.copy, 0));
            }
            !is_last
        });
    }
}
