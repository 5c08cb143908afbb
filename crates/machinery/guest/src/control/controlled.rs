//! What the socket controls: a session, or what stands for one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use timeloom_sys::rights::Rights;

use crate::control::error::HoldError;
use crate::control::grants::Grants;
use crate::enter::identity::Identity;
use crate::enter::root::Root;
use crate::session::Session;

/// What can be controlled through the socket.
pub trait Controlled: Send + Sync {
    /// Stops clock and processes.
    fn pause(&self) -> Result<(), HoldError>;
    /// Lets them go on.
    fn resume(&self) -> Result<(), HoldError>;
    /// Whether it was paused by [`Self::pause`], or has not been let go yet.
    fn is_held(&self) -> bool {
        self.session().clock().is_paused()
    }
    /// Lets time skip while everything waits, or not any more.
    fn skip(self: Arc<Self>, on: bool) -> Result<(), HoldError>;
    /// Makes it stand until what is returned is dropped, beside others that hold it.
    ///
    /// # Errors
    /// When it cannot be done, or only one can hold it.
    fn hold(&self, _requester: &str, _reason: &str) -> Result<Box<dyn Send>, HoldError> {
        Err(HoldError::other(
            "this session has no pause bus; `timeloom pause` stops it, \
             `timeloom run` and `timeloom agent` make sessions with one",
        ))
    }
    /// Lets an engine of the network that is simulated for it leave, while the rest goes on, and
    /// returns when it has.
    ///
    /// # Errors
    /// There is no such engine, or it is not here.
    fn leave(&self, _engine: &str) -> Result<(), HoldError> {
        Err(HoldError::other(NO_ENGINES))
    }
    /// Lets one that has left join the others again, and returns when it has.
    ///
    /// # Errors
    /// There is no such engine, or it has not left.
    fn join(&self, _engine: &str) -> Result<(), HoldError> {
        Err(HoldError::other(NO_ENGINES))
    }
    /// Whether its pauses are agreed on with other machines, so that nobody may change
    /// its clock alone.
    fn is_agreed(&self) -> bool {
        false
    }
    /// What it has beyond if its time moves by grants only.
    fn stepped(&self) -> Option<&dyn Stepped> {
        None
    }
    /// The session behind it, for all else.
    fn session(&self) -> &Session;
    /// Where its results go, if it leaves any.
    fn directory(&self) -> Option<&Path> {
        None
    }
    /// What a command gets that comes in to one of its hosts from outside. Without a
    /// network of its own the host has the supervisor's.
    ///
    /// # Errors
    /// It cannot be let in now.
    fn welcome(&self, _host: &str) -> Result<Welcome, HoldError> {
        Ok(Welcome::default())
    }
    /// Tells of a command that has come in to a host: `"start"`, or `"end"` and how.
    fn came_in(&self, _host: &str, _command: &str, _what: &str, _how: &str) {}
}

const NO_ENGINES: &str = "no network is simulated for this session in several engines; \
                          `timeloom run` makes sessions with one";

/// What a host has for a command that comes in from outside.
#[derive(Debug, Default)]
pub struct Welcome {
    /// Its network namespace.
    pub network: Option<OwnedFd>,
    /// The container in which its programs run, if they do.
    pub root: Option<Arc<Root>>,
    /// Host name and name service files of its host, if it has its own.
    pub identity: Option<Arc<Identity>>,
    /// Variables of its programs.
    pub env: BTreeMap<OsString, OsString>,
    /// What its programs may do.
    pub rights: HostRights,
}

/// What the programs of a host may do, and with them who comes in.
#[derive(Debug, Default)]
pub enum HostRights {
    /// What the session's supervisor may.
    #[default]
    Supervisors,
    /// All of them this.
    Those(Rights),
    /// Not all the same, so who comes in says what he wants.
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

/// What a session has whose time moves by grants only. Its granter is one more
/// participant in its pause.
pub trait Stepped {
    /// Who grants, and what was granted.
    fn grants(&self) -> &Arc<Grants>;
    /// Lets go of the granter's share in the pause.
    fn go(&self) -> Result<(), HoldError>;
    /// Takes it again.
    fn stand(&self) -> Result<(), HoldError>;
}
