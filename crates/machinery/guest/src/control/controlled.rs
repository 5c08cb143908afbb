//! What the socket controls: a session, or what stands for one.

use std::sync::Arc;

use crate::control::grants::Grants;
use crate::session::Session;

/// What can be controlled through the socket.
pub trait Controlled: Send + Sync {
    /// Stops clock and processes.
    fn pause(&self) -> Result<(), String>;
    /// Lets them go on.
    fn resume(&self) -> Result<(), String>;
    /// Whether it was paused by [`Self::pause`], or has not been let go yet.
    fn is_held(&self) -> bool {
        self.session().clock().is_paused()
    }
    /// Lets time skip while everything waits, or not any more.
    fn skip(self: Arc<Self>, on: bool) -> Result<(), String>;
    /// What it has beyond if its time moves by grants only.
    fn stepped(&self) -> Option<&dyn Stepped> {
        None
    }
    /// The session behind it, for all else.
    fn session(&self) -> &Session;
}

impl Controlled for Session {
    fn pause(&self) -> Result<(), String> {
        Session::pause(self)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn resume(&self) -> Result<(), String> {
        Session::resume(self).map_err(|error| error.to_string())
    }

    fn skip(self: Arc<Self>, on: bool) -> Result<(), String> {
        self.set_skipping(on);
        Ok(())
    }

    fn session(&self) -> &Session {
        self
    }
}

/// What a session has whose time moves by grants only. Its granter is one more
/// participant in its pause.
pub trait Stepped {
    /// Who grants, and what was granted.
    fn grants(&self) -> &Arc<Grants>;
    /// Lets go of the granter's share in the pause.
    fn go(&self) -> Result<(), String>;
    /// Takes it again.
    fn stand(&self) -> Result<(), String>;
}
