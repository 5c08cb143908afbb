//! Target of the socket's requests: a session, or a substitute for one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use timeloom_sys::rights::Rights;

use crate::control::error::HoldError;
use crate::control::grants::Grants;
use crate::control::protocol::HoldText;
use crate::enter::identity::Identity;
use crate::enter::root::Root;
use crate::session::Session;

/// Target of requests through the socket.
pub trait Controlled: Send + Sync {
    /// Stops clock and processes.
    fn pause(&self) -> Result<(), HoldError>;
    /// Resumes clock and processes.
    fn resume(&self) -> Result<(), HoldError>;
    /// Returns true if it was paused by [`Self::pause`], or has not been started yet.
    fn is_held(&self) -> bool {
        self.session().clock().is_paused()
    }
    /// Enables or disables skipping of time while all threads wait.
    fn skip(self: Arc<Self>, on: bool) -> Result<(), HoldError>;
    /// Stops the session until the returned value is dropped, independently of other holders.
    ///
    /// # Errors
    /// Fails if the session cannot be stopped, or allows only one holder.
    fn hold(&self, _requester: &str, _reason: &str) -> Result<Box<dyn Send>, HoldError> {
        Err(HoldError::other(
            "this session has no pause bus; `timeloom pause` stops it, \
             `timeloom run` and `timeloom agent` make sessions with one",
        ))
    }
    /// Lets an engine of its simulated network leave, while the rest continues, and returns when it
    /// has left.
    ///
    /// # Errors
    /// Fails if there is no such engine, or if it is not present.
    fn leave(&self, _engine: &str) -> Result<(), HoldError> {
        Err(HoldError::other(NO_ENGINES))
    }
    /// Lets an engine that has left rejoin the others, and returns when it has joined.
    ///
    /// # Errors
    /// Fails if there is no such engine, or if it has not left.
    fn join(&self, _engine: &str) -> Result<(), HoldError> {
        Err(HoldError::other(NO_ENGINES))
    }
    /// Returns true if its pauses are agreed on with other machines, so that its clock must not be
    /// changed alone.
    fn is_agreed(&self) -> bool {
        false
    }
    /// Returns the additional interface of a session whose time moves by grants only.
    fn stepped(&self) -> Option<&dyn Stepped> {
        None
    }
    /// Returns the underlying session.
    fn session(&self) -> &Session;
    /// Returns the directory of its results, if it leaves any.
    fn directory(&self) -> Option<&Path> {
        None
    }
    /// Returns the environment of a command started from outside on one of its hosts. Without a
    /// network of its own the host has the supervisor's.
    ///
    /// # Errors
    /// Fails if the command cannot be admitted now.
    fn welcome(&self, _host: &str) -> Result<Welcome, HoldError> {
        Ok(Welcome::default())
    }
    /// Returns the present holds on the pause, the longest first.
    fn holds(&self) -> Vec<HoldText> {
        Vec::new()
    }
    /// Passes recorded rows to their files, for a reader of the results.
    fn flush(&self) {}
    /// Reports a request that a named requester made, and that was executed.
    fn acted(&self, _who: &str, _effect: &str) {}
    /// Reports a command that was started from outside on a host: `"start"`, or `"end"` and its
    /// status.
    fn came_in(&self, _host: &str, _command: &str, _what: &str, _how: &str) {}
}

const NO_ENGINES: &str = "no network is simulated for this session in several engines; \
                          `timeloom run` makes sessions with one";

/// Environment that a host provides for a command started from outside.
#[derive(Debug, Default)]
pub struct Welcome {
    /// Network namespace of the host.
    pub network: Option<OwnedFd>,
    /// Container of its programs, if there is one.
    pub root: Option<Arc<Root>>,
    /// Host name and name service files of the host, if it has its own.
    pub identity: Option<Arc<Identity>>,
    /// Variables of its programs.
    pub env: BTreeMap<OsString, OsString>,
    /// Privileges of its programs.
    pub rights: HostRights,
}

/// Privileges of a host's programs, and of commands started there from outside.
#[derive(Debug, Default)]
pub enum HostRights {
    /// Those of the session's supervisor.
    #[default]
    Supervisors,
    /// The same for all programs.
    Those(Rights),
    /// Different ones, so the command must state its own.
    Several,
}

impl Controlled for Session {
    fn pause(&self) -> Result<(), HoldError> {
        Session::pause(self)?;
        Ok(())
    }

    fn resume(&self) -> Result<(), HoldError> {
        Ok(Session::resume(self)?)
    }

    fn skip(self: Arc<Self>, on: bool) -> Result<(), HoldError> {
        self.set_skipping(on);
        Ok(())
    }

    fn session(&self) -> &Session {
        self
    }
}

/// Additional interface of a session whose time moves by grants only. Its granter is one more
/// participant in its pause.
pub trait Stepped {
    /// Returns the granter's state and the grants so far.
    fn grants(&self) -> &Arc<Grants>;
    /// Releases the granter's share in the pause.
    fn go(&self) -> Result<(), HoldError>;
    /// Takes the granter's share in the pause again.
    fn stand(&self) -> Result<(), HoldError>;
}
