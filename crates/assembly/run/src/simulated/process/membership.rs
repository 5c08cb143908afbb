//! Membership of engines in a run's group of engines, and requests to leave and to join.
//!
//! A thread that requests a change waits here until the thread that receives from the engine
//! ([`super::listener`]) reports the result.

use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::time::Duration as StdDuration;

use timeloom_net::Owner;

use super::super::message::{ModelChange, ToEngine};
use super::connection::{EngineConnection, lock};

/// Membership state of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EngineState {
    /// A process exists, or is about to be started, but is not connected to all other engines yet.
    #[default]
    Coming,
    Here,
    /// The engine has been asked to leave.
    Leaving,
    /// The engine has left, and may join again.
    Away,
    /// The engine has died, and is not restarted.
    Gone,
}

/// Error that prevents an engine from leaving or joining.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MembershipError {
    #[error("there is no engine {name}; there are {}", .names.join(", "))]
    Unknown { name: String, names: Vec<String> },
    /// The engine cannot leave while another engine is joining, because a joining engine waits for
    /// all that are present.
    #[error("engine {name} cannot leave yet: engine {other} is joining and waits for it")]
    IsAwaited { name: String, other: String },
    #[error("engine {name} cannot {change}: {}", hindrance(*.state))]
    State {
        name: String,
        change: &'static str,
        /// Present state of the engine; `None` if the run is over.
        state: Option<EngineState>,
    },
}

fn hindrance(state: Option<EngineState>) -> &'static str {
    match state {
        None => "the run is over",
        Some(EngineState::Here) => "it is here",
        Some(EngineState::Away) => "it has left",
        Some(EngineState::Coming) => "it is joining",
        Some(EngineState::Leaving) => "it is leaving, and does not answer",
        Some(EngineState::Gone) => "it has died",
    }
}

/// Membership state of an engine; notifies threads that wait for a change.
#[derive(Default)]
pub(super) struct EngineMembership {
    state: Mutex<EngineState>,
    changed: Condvar,
}

impl EngineMembership {
    pub(super) fn is(&self) -> EngineState {
        *lock(&self.state)
    }

    pub(super) fn set(&self, state: EngineState) {
        *lock(&self.state) = state;
        self.changed.notify_all();
    }

    /// Wakes threads that wait for a change, after a change outside of this state.
    pub(super) fn stir(&self) {
        // Taking the lock ensures that no thread is between the check of its condition and its
        // wait.
        drop(lock(&self.state));
        self.changed.notify_all();
    }

    /// Changes the state from `from` to `to`. If the state is not `from`, returns it as an error.
    fn exchange(&self, from: EngineState, to: EngineState) -> Result<(), EngineState> {
        let mut state = lock(&self.state);
        if *state != from {
            return Err(*state);
        }
        *state = to;
        self.changed.notify_all();
        Ok(())
    }

    /// Waits while the state is `this` and `waits` returns true, for at most `patience`. `None`
    /// waits without limit. Returns the state at the end.
    pub(super) fn await_change(
        &self,
        this: EngineState,
        patience: Option<StdDuration>,
        waits: impl Fn() -> bool,
    ) -> EngineState {
        let mut state = lock(&self.state);
        let stays = |is: &mut EngineState| *is == this && waits();
        match patience {
            Some(patience) => {
                self.changed.wait_while_for(&mut state, stays, patience);
            }
            None => self.changed.wait_while(&mut state, stays),
        }
        *state
    }
}

impl EngineConnection {
    /// Asks the engine to leave, and waits until it has left.
    fn leave(&self) -> Result<(), MembershipError> {
        let asked = self
            .membership
            .exchange(EngineState::Here, EngineState::Leaving);
        asked.map_err(|is| self.cannot("leave", is))?;
        // If sending fails, the listener finds out that the process has died.
        let _ = self.say(&ToEngine::Leave);
        match self.await_change(EngineState::Leaving) {
            EngineState::Away => Ok(()),
            is => Err(self.cannot("leave", is)),
        }
    }

    /// Asks the engine to join the others again, and waits until it has joined.
    fn join(&self) -> Result<(), MembershipError> {
        let asked = self
            .membership
            .exchange(EngineState::Away, EngineState::Coming);
        asked.map_err(|is| self.cannot("join", is))?;
        match self.await_change(EngineState::Coming) {
            EngineState::Here => Ok(()),
            is => Err(self.cannot("join", is)),
        }
    }

    fn await_change(&self, from: EngineState) -> EngineState {
        let goes_on = || !self.is_over();
        self.membership
            .await_change(from, Some(super::TO_BEGIN), goes_on)
    }

    fn cannot(&self, change: &'static str, is: EngineState) -> MembershipError {
        MembershipError::State {
            name: self.name.clone(),
            change,
            state: (!self.is_over()).then_some(is),
        }
    }
}

/// Connections to all engines of a run.
#[derive(Default)]
pub(crate) struct EngineConnections {
    connections: Mutex<Vec<Weak<EngineConnection>>>,
    /// Lock for changes. Engines leave and join one after another, because a joining engine waits
    /// for all that are present.
    turn: Mutex<()>,
    /// Changes of links by clients so far.
    changes: Mutex<Vec<ModelChange>>,
}

impl EngineConnections {
    /// Asks an engine to leave, and waits until it has left.
    ///
    /// # Errors
    /// Returns an error if no engine has this name, or if the engine is not present.
    pub(crate) fn leave(&self, engine: &str) -> Result<(), MembershipError> {
        let _turn = lock(&self.turn);
        let connection = self.named(engine)?;
        let connections = self.connections();
        let comes = connections
            .iter()
            .find(|other| other.membership.is() == EngineState::Coming);
        if let Some(other) = comes.filter(|other| !Arc::ptr_eq(other, &connection)) {
            return Err(MembershipError::IsAwaited {
                name: engine.to_owned(),
                other: other.name.clone(),
            });
        }
        connection.leave()
    }

    /// Asks an engine that has left to join the others again, and waits until it has joined.
    ///
    /// # Errors
    /// Returns an error if no engine has this name, if the engine has not left, or if the engine
    /// dies while it joins.
    pub(crate) fn join(&self, engine: &str) -> Result<(), MembershipError> {
        let _turn = lock(&self.turn);
        self.named(engine)?.join()
    }

    /// Changes links in all engines, and in those that join later.
    pub(in super::super) fn change(&self, changes: &[ModelChange]) {
        let mut all = lock(&self.changes);
        all.extend_from_slice(changes);
        for connection in self.connections() {
            // Sending fails if the engine is away; another process gets the changes at its start.
            let _ = connection.say(&ToEngine::Change(changes.to_vec()));
        }
    }

    /// Sends a definition with all changes so far by `send`; later changes follow it.
    pub(super) fn with_changes<T>(&self, send: impl FnOnce(Vec<ModelChange>) -> T) -> T {
        let changes = lock(&self.changes);
        send(changes.clone())
    }

    pub(super) fn admit(&self, connection: &Arc<EngineConnection>) {
        lock(&self.connections).push(Arc::downgrade(connection));
    }

    /// Tells all other engines that a process of the engine `ended` has ended.
    pub(super) fn lost(&self, ended: &Arc<EngineConnection>) {
        let lost = ended.lost();
        let connections = self.connections();
        for connection in connections
            .iter()
            .filter(|connection| !Arc::ptr_eq(connection, ended))
        {
            // Sending fails if that engine is gone as well.
            let _ = connection.say(&lost);
        }
    }

    /// Returns the numbers of the engines that are away, for which a joining engine does not wait.
    pub(super) fn absent(&self) -> Vec<Owner> {
        let is_absent = |connection: &&Arc<EngineConnection>| {
            !matches!(
                connection.membership.is(),
                EngineState::Here | EngineState::Coming
            )
        };
        let connections = self.connections();
        let absent = connections.iter().filter(is_absent);
        absent.map(|connection| connection.here).collect()
    }

    fn connections(&self) -> Vec<Arc<EngineConnection>> {
        lock(&self.connections)
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn named(&self, engine: &str) -> Result<Arc<EngineConnection>, MembershipError> {
        let connections = self.connections();
        let connection = connections
            .iter()
            .find(|connection| connection.name == engine);
        connection.cloned().ok_or_else(|| MembershipError::Unknown {
            name: engine.to_owned(),
            names: connections
                .iter()
                .map(|connection| connection.name.clone())
                .collect(),
        })
    }
}
