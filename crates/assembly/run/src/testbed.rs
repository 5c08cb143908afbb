//! The session as the bus and the control socket see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use timeloom_bus::{Bus, Hold, Testbed, TestbedError};
use timeloom_guest::{Controlled, Grants, NOT_BY_HAND, Session, Stepped};
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
    /// Whether time skips in the plan's time mode.
    may_skip: bool,
    stepped: Option<Granter>,
}

/// Whoever moves a stepped run is one more participant again.
struct Granter {
    grants: Arc<Grants>,
    hold: Mutex<Option<Hold>>,
}

impl Keyboard {
    /// With `grants`, time moves by those only.
    pub(crate) fn new(
        session: Arc<Session>,
        bus: Bus,
        may_skip: bool,
        grants: Option<Arc<Grants>>,
    ) -> Self {
        Self {
            session,
            bus,
            hold: Mutex::new(None),
            begun: AtomicBool::new(false),
            may_skip,
            stepped: grants.map(|grants| Granter {
                grants,
                hold: Mutex::new(None),
            }),
        }
    }

    /// Lets the run begin: its clock goes, or stands from now on for its granter.
    /// It may be paused by hand.
    pub(crate) fn begin(&self) -> Result<(), String> {
        let begun = match &self.stepped {
            Some(_) => self.stand(),
            None => self.session.resume().map_err(|error| error.to_string()),
        };
        self.begun.store(true, Ordering::SeqCst);
        if let Some(stepped) = &self.stepped {
            stepped.grants.open();
        }
        begun
    }

    /// Who grants the run time, if somebody must.
    pub(crate) fn grants(&self) -> Option<&Arc<Grants>> {
        self.stepped.as_ref().map(|stepped| &stepped.grants)
    }

    /// Lets go of what was paused by hand or for the granter, at the end of a run.
    pub(crate) fn release(&self) {
        drop(take(&self.hold));
        drop(self.stepped.as_ref().map(|stepped| take(&stepped.hold)));
    }
}

impl Keyboard {
    fn granter(&self) -> &Granter {
        self.stepped
            .as_ref()
            .expect("only a run that is stepped is asked")
    }
}

fn take(hold: &Mutex<Option<Hold>>) -> Option<Hold> {
    hold.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Stepped for Keyboard {
    fn grants(&self) -> &Arc<Grants> {
        &self.granter().grants
    }

    fn go(&self) -> Result<(), String> {
        drop(take(&self.granter().hold));
        Ok(())
    }

    fn stand(&self) -> Result<(), String> {
        let granter = self.granter();
        let mut hold = granter.hold.lock().unwrap_or_else(PoisonError::into_inner);
        if hold.is_none() {
            let held = self.bus.hold("granter", &granter.grants.who());
            *hold = Some(held.map_err(|error| error.to_string())?);
        }
        Ok(())
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
        match (take(&self.hold), &self.stepped) {
            (Some(hold), _) => drop(hold),
            (None, Some(_)) => return Err(NOT_BY_HAND.into()),
            (None, None) => return Err("this run was not paused by hand".into()),
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
                "this run is not one that can skip; say mode = \"skip\" under [time] in its scenario, or stepped = { skip = true }"
                    .into(),
            );
        }
        self.session.set_skipping(on);
        Ok(())
    }

    fn stepped(&self) -> Option<&dyn Stepped> {
        self.stepped.as_ref().map(|_| self as &dyn Stepped)
    }

    fn session(&self) -> &Session {
        &self.session
    }
}
