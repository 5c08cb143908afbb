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

#[cfg(test)]
mod tests {
    use timeloom_ptp::{Action, OrdinaryClock, OrdinaryConfig, Profile, SplitMix};
    use timeloom_wire::ClockIdentity;

    use super::*;

    /// Tokens are made by machines only.
    fn tokens(count: usize) -> Vec<Token> {
        let config = OrdinaryConfig::new(ClockIdentity([1; 8]), Profile::DEFAULT_PEER_TO_PEER);
        let mut clock = OrdinaryClock::new(config, Instant::ZERO);
        let mut random = SplitMix(7);
        let mut tokens = Vec::new();
        while tokens.len() < count {
            let now = clock.next_wake().expect("it measures peer delay for ever");
            clock.handle_wake(now, &mut random);
            while let Some(action) = clock.poll_action() {
                if let Action::Send {
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
        // Equal bytes twice: in the order they were sent.
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
        assert_eq!(departures.departed(&[1, 2]), None, "too late finds nobody");
        departures.add(vec![1], first, at(0));
        assert_eq!(departures.give_up().collect::<Vec<_>>(), [first]);
    }
}
