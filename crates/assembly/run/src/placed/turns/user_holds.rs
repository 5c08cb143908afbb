//! Holds of this agent for pauses that users have requested at other agents.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use timeloom_bus::{Bus, Hold};

/// Holds by the agent and the number of the request.
#[derive(Default)]
pub(super) struct UserHolds {
    /// Bus of this agent's run, which keeps the session alive; `None` before and after the run.
    bus: Mutex<Option<Bus>>,
    holds: Mutex<BTreeMap<(usize, u64), Hold>>,
}

impl UserHolds {
    /// Sets the bus of this agent's run.
    pub(super) fn use_bus(&self, bus: Bus) {
        *self.bus.lock() = Some(bus);
    }

    /// Pauses this agent's session for a user of the agent with the name `agent`.
    ///
    /// # Errors
    /// Returns a text if the session cannot be paused, or if the agent has too many holds.
    pub(super) fn hold(
        &self,
        agent: &str,
        from: usize,
        number: u64,
        reason: &str,
    ) -> Result<(), String> {
        let Some(bus) = self.bus.lock().clone() else {
            return Ok(());
        };
        if self.holds.lock().len() >= MOST_HOLDS {
            return Err(format!("it requests more than {MOST_HOLDS} pauses at once"));
        }
        let reason: String = reason.chars().take(LONGEST_REASON).collect();
        let hold = bus.hold(&format!("agent {agent}"), &reason);
        let hold = hold.map_err(|error| format!("its user's pause: {error}"))?;
        self.holds.lock().insert((from, number), hold);
        // The run may have ended meanwhile.
        if self.bus.lock().is_none() {
            self.release(from, number);
        }
        Ok(())
    }

    /// Ends all holds, and lets go of the bus.
    pub(super) fn end(&self) {
        let bus = self.bus.lock().take();
        let holds = std::mem::take(&mut *self.holds.lock());
        drop((holds, bus));
    }

    /// Ends one hold.
    pub(super) fn release(&self, from: usize, number: u64) {
        let hold = self.holds.lock().remove(&(from, number));
        drop(hold);
    }

    /// Ends all holds of an agent that is gone.
    pub(super) fn release_all_of(&self, from: usize) {
        let gone: Vec<Hold> = {
            let mut holds = self.holds.lock();
            let kept = holds.split_off(&(from, 0));
            let (gone, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
                kept.into_iter().partition(|((agent, _), _)| *agent == from);
            holds.extend(kept);
            gone.into_values().collect()
        };
        drop(gone);
    }
}

/// Maximum number of holds for all other agents.
const MOST_HOLDS: usize = 256;
/// Maximum length of a reason, in characters.
const LONGEST_REASON: usize = 200;
