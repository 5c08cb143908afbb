//! Event messages that have left and whose stamps are awaited.
//!
//! A stamp that does not come costs its message, never the port: after a while
//! it is reported as lost, and a stamp that comes later still finds nobody.

use std::collections::VecDeque;

use timeloom_ptp::Token;
use timeloom_time::{Duration, Instant, Wall};

#[derive(Debug)]
struct Waiting {
    message: Vec<u8>,
    token: Token,
    until: Instant<Wall>,
}

/// In the order of departure. Bounded, for at most one message is added per
/// action of a state machine whose own queues are bounded, and each leaves
/// after [`PATIENCE`].
#[derive(Debug, Default)]
pub(crate) struct Departures(VecDeque<Waiting>);

/// linuxptp's customary `tx_timestamp_timeout` for slow machines.
const PATIENCE: Duration = Duration::from_ms(100);

impl Departures {
    pub(crate) fn add(&mut self, message: Vec<u8>, token: Token, now: Instant<Wall>) {
        self.0.push_back(Waiting {
            message,
            token,
            until: now + PATIENCE,
        });
    }

    /// Whose departure `frame` is a copy of: the first that is its tail, for
    /// equal messages leave in the order they were sent.
    pub(crate) fn departed(&mut self, frame: &[u8]) -> Option<Token> {
        let at = self
            .0
            .iter()
            .position(|waiting| frame.ends_with(&waiting.message))?;
        self.0.remove(at).map(|waiting| waiting.token)
    }

    /// One whose patience has ended.
    pub(crate) fn lost(&mut self, now: Instant<Wall>) -> Option<Token> {
        if self.0.front()?.until > now {
            return None;
        }
        self.0.pop_front().map(|waiting| waiting.token)
    }

    /// All of them: their stamps cannot be used any more.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = Token> + '_ {
        self.0.drain(..).map(|waiting| waiting.token)
    }

    pub(crate) fn next_wake(&self) -> Option<Instant<Wall>> {
        self.0.front().map(|waiting| waiting.until)
    }
}
