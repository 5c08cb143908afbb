//! Messages between agents that act in turns, as JSON. Frames of links are sent as bytes.

use serde::{Deserialize, Serialize};
use timeloom_agreement::{EventKey, TurnEnd};
use timeloom_time::Instant;

use crate::node::Sample;

/// Message from one agent to another.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum PeerMessage {
    /// Name of the agent that opened the stream; the first message.
    Hello { agent: String },
    /// End of the sender's turn.
    End(SentEnd),
    /// Asks for a turn: the sender may have an event that it has not announced.
    Ask,
    /// Announces that a program of the sender is ready, at this virtual instant in ns.
    Ready { program: String, at_ns: i64 },
    /// Asks for a pause, with a number of the sender's and its reason.
    Hold { number: u64, reason: String },
    /// Ends the pause with this number.
    Release { number: u64 },
    /// Asks that no agent pass this virtual instant in ns; `None` ends that.
    StopAt { at_ns: Option<i64> },
    /// Sample of the sender's engine.
    Sample(Sample),
    /// Sign of life.
    Beat,
}

/// End of a turn; instants are nanoseconds of virtual time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentEnd {
    pub(super) turn: u64,
    /// Instant and rank of the sender's next event.
    next: Option<(i64, u32)>,
    /// Earliest arrival of the sender's messages, by the number of the receiver.
    sent: Vec<(usize, i64)>,
    leaves: bool,
    is_settled: bool,
}

impl From<TurnEnd> for SentEnd {
    fn from(end: TurnEnd) -> Self {
        let sent = end.sent.into_iter();
        Self {
            turn: end.turn,
            next: end.next.map(|next| (next.at.as_ns(), next.rank)),
            sent: sent.map(|(to, at)| (to, at.as_ns())).collect(),
            leaves: end.leaves,
            is_settled: end.is_settled,
        }
    }
}

impl From<SentEnd> for TurnEnd {
    fn from(end: SentEnd) -> Self {
        let sent = end.sent.into_iter();
        let key = |(at, rank)| EventKey {
            at: Instant::from_ns(at),
            rank,
        };
        Self {
            turn: end.turn,
            next: end.next.map(key),
            sent: sent.map(|(to, at)| (to, Instant::from_ns(at))).collect(),
            leaves: end.leaves,
            is_settled: end.is_settled,
        }
    }
}
