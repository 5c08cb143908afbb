//! The session as the bus and the control socket see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use timeloom_bus::{Bus, Hold, Testbed, TestbedError};
use timeloom_guest::{Controlled, Session};
use timeloom_time::{Instant, Virtual};

/// Obeys the pause wire: the clock first, then the processes.
pub(crate) struct PausedTestbed(pub(crate) Arc<Session>);

impl Testbed for PausedTestbed {
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError> {
        self.0
            .pause()
            .map_err(|error| TestbedError::new(error.to_string()))
    }

    fn resume(&self) -> Result<(), TestbedError> {
        self.0
            .resume()
            .map_err(|error| TestbedError::new(error.to_string()))
    }
}

/// A run under `timeloom pause` and `timeloom resume`: the person at the
/// keyboard is one more participant on the wire.
pub(crate) struct Keyboard {
    session: Arc<Session>,
    bus: Bus,
    hold: Mutex<Option<Hold>>,
    /// Whether the run has begun. Until then the clock stands for its own
    /// reasons, and letting go of a hold must not set it going.
    begun: AtomicBool,
    /// Whether the plan's time mode is `skip`.
    may_skip: bool,
}

impl Keyboard {
    pub(crate) fn new(session: Arc<Session>, bus: Bus, may_skip: bool) -> Self {
        Self {
            session,
            bus,
            hold: Mutex::new(None),
            begun: AtomicBool::new(false),
            may_skip,
        }
    }

    /// From now on the run may be paused.
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    /// Lets go of what was paused by hand, at the end of a run.
    pub(crate) fn release(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<Hold> {
        self.hold
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Controlled for Keyboard {
    fn pause(&self) -> Result<(), String> {
        if !self.begun.load(Ordering::SeqCst) {
            return Err("this run is still getting ready".into());
        }
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        if hold.is_none() {
            *hold = Some(
                self.bus
                    .hold("user", "timeloom pause")
                    .map_err(|error| error.to_string())?,
            );
        }
        Ok(())
    }

    fn resume(&self) -> Result<(), String> {
        match self.take() {
            Some(hold) => drop(hold),
            None => return Err("this run was not paused by hand".into()),
        }
        Ok(())
    }

    fn is_held(&self) -> bool {
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        hold.is_some()
    }

    fn skip(self: Arc<Self>, on: bool) -> Result<(), String> {
        // Only then does the session know what its network has in flight.
        if !self.may_skip {
            return Err(
                "this run is not one that can skip; say mode = \"skip\" under [time] in its scenario"
                    .into(),
            );
        }
        self.session.set_skipping(on);
        Ok(())
    }

    fn session(&self) -> &Session {
        &self.session
    }
}
