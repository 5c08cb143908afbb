//! Neighbour solicitations of a host's kernel, repeated until an answer arrives (Linux,
//! net/core/neighbour.c).

use std::collections::BTreeMap;
use std::net::IpAddr;

use timeloom_time::{Duration, Instant, Virtual};

use super::Action;
use super::ticks::Ticks;
use crate::bytes::{ArpMessage, NdMessage};

/// Unanswered solicitations of one host.
#[derive(Debug)]
pub(crate) struct Neighbours<C> {
    ticks: Ticks,
    questions: BTreeMap<IpAddr, Question<C>>,
    /// Start of the solicitation that was answered last, and the instant of its answer.
    answered: Option<[Instant<Virtual>; 2]>,
    /// Neighbours that never answered.
    pub(crate) unresolved: u64,
}

#[derive(Debug)]
struct Question<C> {
    copy: C,
    since: Instant<Virtual>,
    asked: u32,
    due: Instant<Virtual>,
}

/// Content of a message between neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Asks(IpAddr),
    Tells(IpAddr),
}

impl Word {
    /// Parses an ARP message; an announcement of its own sender counts as an answer.
    pub(crate) fn of_arp(bytes: &[u8]) -> Option<Self> {
        let message = ArpMessage::read(bytes)?;
        let asks = message.is_request && message.sender != message.target;
        Some(match asks && !message.sender.is_unspecified() {
            true => Self::Asks(message.target.into()),
            false => Self::Tells(message.sender.into()),
        })
    }

    /// Parses a message of neighbour discovery, from the IP header on.
    pub(crate) fn of_nd(packet: &[u8]) -> Option<Self> {
        let message = NdMessage::read(packet)?;
        Some(match (message.is_request, message.src.is_unspecified()) {
            (true, false) => Self::Asks(message.target.into()),
            // The sender checks an address before it uses it.
            (true, true) => Self::Tells(message.src.into()),
            (false, _) => Self::Tells(message.target.into()),
        })
    }

    /// Returns the address about which the message informs a host that receives it.
    fn sender(self, packet_from: Option<IpAddr>) -> Option<IpAddr> {
        match self {
            Self::Tells(address) => Some(address),
            Self::Asks(_) => packet_from,
        }
    }
}

/// Time that a kernel may take to send the queued packets.
const AT_ONCE: Duration = Duration::from_ms(2);
/// Number of solicitations (mcast_solicit) and their interval (retrans_time_ms).
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

    /// Handles a solicitation of the host's kernel for an address.
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

    /// Handles a message of a neighbour to the host.
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

    /// Returns the instant since which a packet sent now has waited: once a neighbour has answered,
    /// the kernel sends the packets queued for it.
    pub(crate) fn waited_since(&self, now: Instant<Virtual>) -> Option<Instant<Virtual>> {
        let [since, answered] = self.answered?;
        (now - answered <= AT_ONCE).then_some(since)
    }

    pub(crate) fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.questions.values().map(|question| question.due).min()
    }

    /// Repeats unanswered solicitations.
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
