//! Event messages that were sent and whose transmit timestamps are pending.
//!
//! A missing timestamp affects its message only, not the port. After a timeout the message is
//! reported as lost, and a timestamp that arrives later is ignored.

use std::collections::VecDeque;

use timeloom_ptp::Token;
use timeloom_time::{Duration, Instant, Wall};

#[derive(Debug)]
struct Waiting {
    message: Vec<u8>,
    token: Token,
    until: Instant<Wall>,
}

/// Queue of messages in the order of departure. Its length is bounded: a state machine adds at most
/// one message per action, the machine's own queues are bounded, and each entry is removed after
/// [`PATIENCE`].
#[derive(Debug, Default)]
pub(crate) struct Departures(VecDeque<Waiting>);

/// Time to wait for a timestamp; the value of `tx_timestamp_timeout` that is customary for linuxptp
/// on slow machines.
const PATIENCE: Duration = Duration::from_ms(100);

impl Departures {
    pub(crate) fn add(&mut self, message: Vec<u8>, token: Token, now: Instant<Wall>) {
        self.0.push_back(Waiting {
            message,
            token,
            until: now + PATIENCE,
        });
    }

    /// Returns the message that `frame` contains a copy of, and removes it. The message is the
    /// first one that is the tail of the frame, because equal messages depart in the order in which
    /// they were sent.
    pub(crate) fn departed(&mut self, frame: &[u8]) -> Option<Token> {
        let at = self
            .0
            .iter()
            .position(|waiting| frame.ends_with(&waiting.message))?;
        self.0.remove(at).map(|waiting| waiting.token)
    }

    /// Returns a message whose timestamp did not arrive in time, and removes it.
    pub(crate) fn lost(&mut self, now: Instant<Wall>) -> Option<Token> {
        if self.0.front()?.until > now {
            return None;
        }
        self.0.pop_front().map(|waiting| waiting.token)
    }

    /// Removes all messages, because their timestamps are unusable.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = Token> + '_ {
        self.0.drain(..).map(|waiting| waiting.token)
    }

    pub(crate) fn next_wake(&self) -> Option<Instant<Wall>> {
        self.0.front().map(|waiting| waiting.until)
    }
}

#[cfg(test)]
mod tests {
    use timeloom_ptp::{DriverAction, OrdinaryClock, OrdinaryConfig, Profile, SplitMix64};
    use timeloom_wire::ClockIdentity;

    use super::*;

    /// Creates tokens, which only state machines can do.
    fn tokens(count: usize) -> Vec<Token> {
        let config = OrdinaryConfig::new(ClockIdentity([1; 8]), Profile::DEFAULT_PEER_TO_PEER);
        let mut clock = OrdinaryClock::new(config, Instant::ZERO);
        let mut random = SplitMix64(7);
        let mut tokens = Vec::new();
        while tokens.len() < count {
            let now = clock.next_wake().expect("it measures peer delay for ever");
            clock.handle_wake(now, &mut random);
            while let Some(action) = clock.poll_action() {
                if let DriverAction::Send {
                    token: Some(token), ..
                } = action
                {
                    tokens.push(token);
                }
            }
        }
        tokens
    }

    #[test]
    fn stamps_find_their_messages_and_lost_ones_are_told() {
        let [first, second, third] = tokens(3)[..] else {
            panic!("three tokens")
        };
        let at = Instant::from_ns;
        let mut departures = Departures::default();
        departures.add(vec![1, 2], first, at(0));
        departures.add(vec![3, 4], second, at(10));
        // Two messages with equal bytes depart in the order in which they were sent.
        departures.add(vec![3, 4], third, at(20));
        assert_eq!(
            departures.departed(&[9, 9, 3, 4]),
            Some(second),
            "a frame ends with its message"
        );
        assert_eq!(departures.departed(&[9, 9, 5]), None);
        assert_eq!(departures.next_wake(), Some(at(0) + PATIENCE));
        assert_eq!(departures.lost(at(99_999_999)), None);
        assert_eq!(departures.lost(at(100_000_000)), Some(first));
        assert_eq!(departures.lost(at(100_000_000)), None);
        assert_eq!(departures.departed(&[3, 4]), Some(third));
        assert_eq!(departures.departed(&[1, 2]), None, "it was discarded");
        departures.add(vec![1], first, at(0));
        assert_eq!(departures.give_up().collect::<Vec<_>>(), [first]);
    }
}
