//! Holds of this agent for pauses that users have requested at other agents.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use timeloom_bus::{Bus, Hold};

/// Holds by the agent and the number of the request.
#[derive(Default)]
pub(super) struct UserHolds {
    phase: Mutex<Phase>,
    holds: Mutex<BTreeMap<Key, Hold>>,
}

/// Number of the agent at which the user is, and number of the request there.
type Key = (usize, u64);

/// Phase of this agent's run.
enum Phase {
    /// The run has not begun. Requests wait for that, each with its requester and reason.
    Prepared(BTreeMap<Key, (String, String)>),
    /// The run is in progress. The bus keeps its session alive.
    Begun(Bus),
    Ended,
}

impl Default for Phase {
    fn default() -> Self {
        Self::Prepared(BTreeMap::new())
    }
}

impl UserHolds {
    /// Begins to hold, on the bus of this agent's run. Requests that have arrived before are
    /// fulfilled now.
    pub(super) fn begin(&self, bus: Bus) {
        let before = std::mem::replace(&mut *self.phase.lock(), Phase::Begun(bus));
        if let Phase::Prepared(requests) = before {
            for (key, (requester, reason)) in requests {
                // A session that cannot be paused at its start cannot be paused later, either.
                let _ = self.hold(key, &requester, &reason);
            }
        }
    }

    /// Pauses this agent's session for a user at another agent.
    ///
    /// # Errors
    /// Returns a text if the session cannot be paused, or if there are too many holds.
    pub(super) fn hold(&self, key: Key, requester: &str, reason: &str) -> Result<(), String> {
        let reason: String = reason.chars().take(LONGEST_REASON).collect();
        let too_many = || format!("it requests more than {MOST_HOLDS} pauses at once");
        let bus = match &mut *self.phase.lock() {
            Phase::Prepared(requests) if requests.len() >= MOST_HOLDS => return Err(too_many()),
            Phase::Prepared(requests) => {
                requests.insert(key, (requester.to_owned(), reason));
                return Ok(());
            }
            Phase::Begun(bus) => bus.clone(),
            Phase::Ended => return Ok(()),
        };
        if self.holds.lock().len() >= MOST_HOLDS {
            return Err(too_many());
        }
        let hold = bus.hold(requester, &reason);
        let hold = hold.map_err(|error| format!("its user's pause: {error}"))?;
        let before = self.holds.lock().insert(key, hold);
        drop(before);
        // The run may have ended meanwhile.
        if matches!(&*self.phase.lock(), Phase::Ended) {
            self.release(key);
        }
        Ok(())
    }

    /// Ends one hold.
    pub(super) fn release(&self, key: Key) {
        if let Phase::Prepared(requests) = &mut *self.phase.lock() {
            requests.remove(&key);
        }
        let hold = self.holds.lock().remove(&key);
        drop(hold);
    }

    /// Ends all holds of an agent that is gone.
    pub(super) fn release_all_of(&self, agent: usize) {
        let keys = self.holds.lock().keys().copied().collect::<Vec<Key>>();
        for key in keys.into_iter().filter(|(from, _)| *from == agent) {
            self.release(key);
        }
    }

    /// Ends all holds for good, and releases the bus.
    pub(super) fn end(&self) {
        let phase = std::mem::replace(&mut *self.phase.lock(), Phase::Ended);
        let holds = std::mem::take(&mut *self.holds.lock());
        drop((holds, phase));
    }
}

/// Maximum number of holds for all other agents.
const MOST_HOLDS: usize = 256;
/// Maximum length of a reason, in characters.
const LONGEST_REASON: usize = 200;
