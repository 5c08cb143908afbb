//! Membership of engines in a run's group of engines, and requests to leave and to join.
//!
//! A thread that requests a change waits here until the thread that receives from the engine
//! ([`super::listener`]) reports the result.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration as StdDuration;

use timeloom_net::Owner;

use super::super::message::ToEngine;
use super::line::{Line, lock};

/// Membership state of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
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
    #[error("engine {name} cannot {change}: {}", hindrance(*.standing))]
    Standing {
        name: String,
        change: &'static str,
        /// Present state of the engine; `None` if the run is over.
        standing: Option<Standing>,
    },
}

fn hindrance(standing: Option<Standing>) -> &'static str {
    match standing {
        None => "the run is over",
        Some(Standing::Here) => "it is here",
        Some(Standing::Away) => "it has left",
        Some(Standing::Coming) => "it is joining",
        Some(Standing::Leaving) => "it is leaving, and does not answer",
        Some(Standing::Gone) => "it has died",
    }
}

/// Membership state of an engine; notifies threads that wait for a change.
#[derive(Default)]
pub(super) struct Membership {
    standing: Mutex<Standing>,
    changed: Condvar,
}

impl Membership {
    pub(super) fn is(&self) -> Standing {
        *lock(&self.standing)
    }

    pub(super) fn set(&self, standing: Standing) {
        *lock(&self.standing) = standing;
        self.changed.notify_all();
    }

    /// Wakes threads that wait for a change, after a change outside of this state.
    pub(super) fn stir(&self) {
        // Taking the lock ensures that no thread is between the check of its condition and its
        // wait.
        drop(lock(&self.standing));
        self.changed.notify_all();
    }

    /// Changes the state from `from` to `to`. If the state is not `from`, returns it as an error.
    fn exchange(&self, from: Standing, to: Standing) -> Result<(), Standing> {
        let mut standing = lock(&self.standing);
        if *standing != from {
            return Err(*standing);
        }
        *standing = to;
        self.changed.notify_all();
        Ok(())
    }

    /// Waits while the state is `this` and `waits` returns true, for at most `patience`. `None`
    /// waits without limit. Returns the state at the end.
    pub(super) fn await_change(
        &self,
        this: Standing,
        patience: Option<StdDuration>,
        waits: impl Fn() -> bool,
    ) -> Standing {
        let standing = lock(&self.standing);
        let stays = |is: &mut Standing| *is == this && waits();
        match patience {
            Some(patience) => {
                let waited = self.changed.wait_timeout_while(standing, patience, stays);
                *waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.changed.wait_while(standing, stays);
                *waited.unwrap_or_else(PoisonError::into_inner)
            }
        }
    }
}

impl Line {
    /// Asks the engine to leave, and waits until it has left.
    fn leave(&self) -> Result<(), MembershipError> {
        let asked = self.membership.exchange(Standing::Here, Standing::Leaving);
        asked.map_err(|is| self.cannot("leave", is))?;
        // If sending fails, the listener finds out that the process has died.
        let _ = self.say(&ToEngine::Leave);
        match self.await_change(Standing::Leaving) {
            Standing::Away => Ok(()),
            is => Err(self.cannot("leave", is)),
        }
    }

    /// Asks the engine to join the others again, and waits until it has joined.
    fn join(&self) -> Result<(), MembershipError> {
        let asked = self.membership.exchange(Standing::Away, Standing::Coming);
        asked.map_err(|is| self.cannot("join", is))?;
        match self.await_change(Standing::Coming) {
            Standing::Here => Ok(()),
            is => Err(self.cannot("join", is)),
        }
    }

    fn await_change(&self, from: Standing) -> Standing {
        let goes_on = || !self.is_over();
        self.membership
            .await_change(from, Some(super::TO_BEGIN), goes_on)
    }

    fn cannot(&self, change: &'static str, is: Standing) -> MembershipError {
        MembershipError::Standing {
            name: self.name.clone(),
            change,
            standing: (!self.is_over()).then_some(is),
        }
    }
}

/// Connections to all engines of a run.
#[derive(Default)]
pub(crate) struct Company {
    lines: Mutex<Vec<Weak<Line>>>,
    /// Lock for changes. Engines leave and join one after another, because a joining engine waits
    /// for all that are present.
    turn: Mutex<()>,
}

impl Company {
    /// Asks an engine to leave, and waits until it has left.
    ///
    /// # Errors
    /// Returns an error if no engine has this name, or if the engine is not present.
    pub(crate) fn leave(&self, engine: &str) -> Result<(), MembershipError> {
        let _turn = lock(&self.turn);
        let line = self.named(engine)?;
        let lines = self.lines();
        let comes = lines
            .iter()
            .find(|other| other.membership.is() == Standing::Coming);
        if let Some(other) = comes.filter(|other| !Arc::ptr_eq(other, &line)) {
            return Err(MembershipError::IsAwaited {
                name: engine.to_owned(),
                other: other.name.clone(),
            });
        }
        line.leave()
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

    pub(super) fn admit(&self, line: &Arc<Line>) {
        lock(&self.lines).push(Arc::downgrade(line));
    }

    /// Tells all other engines that a process of the engine `ended` has ended.
    pub(super) fn lost(&self, ended: &Arc<Line>) {
        let lost = ended.lost();
        let lines = self.lines();
        for line in lines.iter().filter(|line| !Arc::ptr_eq(line, ended)) {
            // Sending fails if that engine is gone as well.
            let _ = line.say(&lost);
        }
    }

    /// Returns the numbers of the engines that are away, for which a joining engine does not wait.
    pub(super) fn absent(&self) -> Vec<Owner> {
        let is_absent =
            |line: &&Arc<Line>| !matches!(line.membership.is(), Standing::Here | Standing::Coming);
        let lines = self.lines();
        let absent = lines.iter().filter(is_absent);
        absent.map(|line| line.here).collect()
    }

    fn lines(&self) -> Vec<Arc<Line>> {
        lock(&self.lines).iter().filter_map(Weak::upgrade).collect()
    }

    fn named(&self, engine: &str) -> Result<Arc<Line>, MembershipError> {
        let lines = self.lines();
        let line = lines.iter().find(|line| line.name == engine);
        line.cloned().ok_or_else(|| MembershipError::Unknown {
            name: engine.to_owned(),
            names: lines.iter().map(|line| line.name.clone()).collect(),
        })
    }
}
