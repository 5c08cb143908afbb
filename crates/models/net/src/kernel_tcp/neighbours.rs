//! Neighbour solicitations of a host's kernel, which the network repeats until there is an answer
//! (Linux, net/core/neighbour.c).

use std::collections::BTreeMap;
use std::net::IpAddr;

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

use super::Action;
use super::ticks::Ticks;
use crate::bytes::{ArpMessage, NdMessage};

/// Unanswered neighbour solicitations of one host.
#[derive(Debug)]
pub(crate) struct Neighbours<C> {
    ticks: Ticks,
    questions: BTreeMap<IpAddr, Question<C>>,
    /// Instant of the last answered solicitation, and instant of its answer.
    answered: Option<[Instant<Virtual>; 2]>,
    /// Number of neighbours that did not answer.
    pub(crate) unresolved: u64,
}

#[derive(Debug)]
struct Question<C> {
    copy: C,
    since: Instant<Virtual>,
    asked: u32,
    due: Instant<Virtual>,
}

/// Content of a message of neighbour resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Asks(IpAddr),
    Tells(IpAddr),
}

impl Word {
    /// Parses an ARP message; an announcement of the sender's own address counts as an answer.
    pub(crate) fn of_arp(bytes: &[u8]) -> Option<Self> {
        let message = ArpMessage::read(bytes)?;
        let asks = message.is_request && message.sender != message.target;
        Some(match asks && !message.sender.is_unspecified() {
            true => Self::Asks(message.target.into()),
            false => Self::Tells(message.sender.into()),
        })
    }

    /// Parses a message of neighbour discovery; `packet` begins with the IP header.
    pub(crate) fn of_nd(packet: &[u8]) -> Option<Self> {
        let message = NdMessage::read(packet)?;
        Some(match (message.is_request, message.src.is_unspecified()) {
            (true, false) => Self::Asks(message.target.into()),
            // Duplicate address detection: the sender checks an address before it uses it.
            (true, true) => Self::Tells(message.src.into()),
            (false, _) => Self::Tells(message.target.into()),
        })
    }

    /// Returns the address whose MAC address a host learns when it receives the message.
    fn sender(self, packet_from: Option<IpAddr>) -> Option<IpAddr> {
        match self {
            Self::Tells(address) => Some(address),
            Self::Asks(_) => packet_from,
        }
    }
}

/// Time within which a kernel sends packets that waited for the answer.
const AT_ONCE: Duration = Duration::from_ms(2);
/// Number of solicitations (mcast_solicit).
const QUESTIONS: u32 = 3;

/// Interval between solicitations (retrans_time_ms).
const EVERY: Duration = Duration::from_s(1);

impl<C: Copy> Neighbours<C> {
    /// Returns the state of neighbour resolution for a host whose kernel counts in ticks of length
    /// `tick`; `phases` draws the phases of ticks.
    pub(crate) fn new(tick: Duration, phases: Random) -> Self {
        Self {
            ticks: Ticks::new(tick, phases),
            questions: BTreeMap::new(),
            answered: None,
            unresolved: 0,
        }
    }

    /// Processes a solicitation that the host's kernel has sent for an address.
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

    /// Processes a message of neighbour resolution that the host has received.
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

    /// Returns the instant since which the packet that the kernel sends now has waited for an
    /// answer of its neighbour; `None` if it has not waited. The kernel sends waiting packets as
    /// soon as the neighbour has answered.
    pub(crate) fn waited_since(&self, now: Instant<Virtual>) -> Option<Instant<Virtual>> {
        let [since, answered] = self.answered?;
        (now - answered <= AT_ONCE).then_some(since)
    }

    pub(crate) fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.questions.values().map(|question| question.due).min()
    }

    /// Repeats solicitations that were not answered in time.
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
