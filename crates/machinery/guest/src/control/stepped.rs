//! Session without a pause bus whose time moves by grants. Two parties may hold it: the granter and
//! the user.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use timeloom_time::{Instant, Virtual};

use crate::control::controlled::{Controlled, Stepped};
use crate::control::error::HoldError;
use crate::control::grants::Grants;
use crate::session::Session;

/// [`Session`] that runs while neither its granter nor the user holds it.
pub struct SteppedSession {
    session: Arc<Session>,
    grants: Arc<Grants>,
    holders: Mutex<Holders>,
}

struct Holders {
    granter: bool,
    person: bool,
}

impl SteppedSession {
    /// Wraps `session`, whose clock must be paused. The session begins held for its granter.
    pub fn new(session: Arc<Session>, grants: Arc<Grants>) -> Self {
        Self {
            session,
            grants,
            holders: Mutex::new(Holders {
                granter: true,
                person: false,
            }),
        }
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock()
    }

    fn hold(&self, holder: impl FnOnce(&mut Holders) -> &mut bool) -> Result<(), HoldError> {
        let mut holders = self.holders();
        *holder(&mut holders) = true;
        Controlled::pause(&*self.session)
    }

    fn let_go(&self, holder: impl FnOnce(&mut Holders) -> &mut bool) -> Result<(), HoldError> {
        let mut holders = self.holders();
        *holder(&mut holders) = false;
        match holders.granter || holders.person {
            true => Ok(()),
            false => Controlled::resume(&*self.session),
        }
    }
}

impl Stepped for SteppedSession {
    fn grants(&self) -> &Arc<Grants> {
        &self.grants
    }

    fn go(&self, _until: Instant<Virtual>) -> Result<(), HoldError> {
        self.let_go(|holders| &mut holders.granter)
    }

    fn stand(&self) -> Result<(), HoldError> {
        self.hold(|holders| &mut holders.granter)
    }
}

impl Controlled for SteppedSession {
    fn pause(&self) -> Result<(), HoldError> {
        self.hold(|holders| &mut holders.person)
    }

    fn resume(&self) -> Result<(), HoldError> {
        if !self.holders().person {
            return Err(HoldError::NotByHand);
        }
        self.let_go(|holders| &mut holders.person)
    }

    fn is_held(&self) -> bool {
        self.holders().person
    }

    fn skip(self: Arc<Self>, on: bool) -> Result<(), HoldError> {
        self.session.set_skipping(on);
        Ok(())
    }

    fn stepped(&self) -> Option<&dyn Stepped> {
        Some(self)
    }

    fn session(&self) -> &Session {
        &self.session
    }
}
