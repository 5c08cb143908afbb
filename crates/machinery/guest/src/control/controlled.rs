//! Interface through which the control socket acts on a session or on its owner.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use timeloom_time::{Instant, Virtual};

use timeloom_sys::rights::Rights;

use crate::control::error::HoldError;
use crate::control::grants::Grants;
use crate::control::link::LinkProperties;
use crate::control::protocol::HoldText;
use crate::control::why::ComponentText;
use crate::enter::identity::Identity;
use crate::enter::root::ContainerRoot;
use crate::session::Session;

/// Object that executes requests of the control socket: a session, or an owner that acts for it.
pub trait Controlled: Send + Sync {
    /// Stops the session's clock and processes.
    fn pause(&self) -> Result<(), HoldError>;
    /// Resumes the session's clock and processes.
    fn resume(&self) -> Result<(), HoldError>;
    /// Returns true if the session was paused by [`Self::pause`], or has not been started yet.
    fn is_held(&self) -> bool {
        self.session().clock().is_paused()
    }
    /// Sets the wall seconds per virtual second. If the pauses of the session are agreed on with
    /// other machines, the clocks of all machines change at the same virtual instant.
    ///
    /// # Errors
    /// Fails if the clock cannot have this dilation, or if the machines cannot agree on it.
    fn dilate(&self, factor: f64) -> Result<(), HoldError> {
        Ok(self.session().dilate(factor)?)
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
    /// Prepares the sessions whose time is shared with this one to run until `target`: they are
    /// paused, with a stop at that instant, until [`Self::resume`].
    ///
    /// # Errors
    /// Fails if this session cannot be paused, or if the pause is at or after `target`.
    fn share_stop(&self, _target: Instant<Virtual>) -> Result<(), HoldError> {
        Ok(())
    }
    /// Ends what [`Self::share_stop`] has begun: the other sessions may pass the instant.
    fn end_shared_stop(&self) {}
    /// Removes an engine of the simulated network while the others continue. Returns when the
    /// engine has left.
    ///
    /// # Errors
    /// Fails if there is no engine of this name, or if it is not present.
    fn leave(&self, _engine: &str) -> Result<(), HoldError> {
        Err(HoldError::other(NO_ENGINES))
    }
    /// Lets an engine that has left rejoin the others. Returns when the engine has joined.
    ///
    /// # Errors
    /// Fails if there is no engine of this name, or if it has not left.
    fn join(&self, _engine: &str) -> Result<(), HoldError> {
        Err(HoldError::other(NO_ENGINES))
    }
    /// Starts or stops an attack of the session's scenario.
    ///
    /// # Errors
    /// Fails if there is no attack of this name, or if it cannot start or stop now.
    fn change_attack(&self, _id: &str, _start: bool) -> Result<(), HoldError> {
        Err(HoldError::other(
            "this session has no scenario with attacks; `timeloom run` makes sessions with one",
        ))
    }
    /// Changes a link of the session's network, in both directions.
    ///
    /// # Errors
    /// Fails if there is no link of this name, or if it cannot have these properties.
    fn change_link(&self, _link: &str, _change: &LinkProperties) -> Result<(), HoldError> {
        Err(HoldError::other(
            "this session has no network of its own; `timeloom run` makes sessions with one",
        ))
    }
    /// Returns true if the pauses of the session are agreed on with other machines. The session's
    /// clock must then not be changed by this machine alone.
    fn is_agreed(&self) -> bool {
        false
    }
    /// Returns the additional interface of a session whose time moves only by grants; `None` for
    /// other sessions.
    fn stepped(&self) -> Option<&dyn Stepped> {
        None
    }
    /// Returns the underlying session.
    fn session(&self) -> &Session;
    /// Returns the directory of the run's results; `None` if there are none.
    fn directory(&self) -> Option<&Path> {
        None
    }
    /// Returns the environment for a command that a client starts on a host. A host without a
    /// network of its own uses the supervisor's.
    ///
    /// # Errors
    /// Fails if no command can be started on the host now.
    fn welcome(&self, _host: &str) -> Result<Welcome, HoldError> {
        Ok(Welcome::default())
    }
    /// Returns the present holds on the pause, the longest first.
    fn holds(&self) -> Vec<HoldText> {
        Vec::new()
    }
    /// Returns the components that are awaited now: those because of which a session stands that is
    /// paused, or because of which its time does not skip. Must not wait for any of them.
    fn awaited(&self) -> Vec<ComponentText> {
        Vec::new()
    }
    /// Passes recorded rows to their files, for a reader of the results.
    fn flush(&self) {}
    /// Reports a request that a named requester made, and that was executed.
    fn acted(&self, _requester: &str, _effect: &str) {}
    /// Records that a client's command on a host has started (`"start"`) or ended (`"end"`, with
    /// its status).
    fn came_in(&self, _host: &str, _command: &str, _what: &str, _how: &str) {}
}

const NO_ENGINES: &str = "no network is simulated for this session in several engines; \
                          `timeloom run` makes sessions with one";

/// Environment that a host provides for a command started by a client.
#[derive(Debug, Default)]
pub struct Welcome {
    /// Network namespace of the host; `None` for the supervisor's.
    pub network: Option<OwnedFd>,
    /// Root of the container in which the host's programs run, if there is one.
    pub root: Option<Arc<ContainerRoot>>,
    /// Host name and name service files of the host; `None` for the machine's.
    pub identity: Option<Arc<Identity>>,
    /// Environment variables of the host's programs.
    pub env: BTreeMap<OsString, OsString>,
    /// Privileges of the host's programs.
    pub rights: HostRights,
}

/// Privileges of a host's programs, and of commands that clients start there.
#[derive(Debug, Default)]
pub enum HostRights {
    /// The privileges of the session's supervisor.
    #[default]
    Supervisors,
    /// These privileges, the same for all programs.
    Those(Rights),
    /// Different privileges per program, so that a client must state those of its command.
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

/// Additional interface of a session whose time moves only by grants of a client, the granter. The
/// granter holds the session like any other holder of a pause.
pub trait Stepped {
    /// Returns the state of the granter and the totals of its grants.
    fn grants(&self) -> &Arc<Grants>;
    /// Releases the granter's hold on the session, until the clock shows `until`.
    fn go(&self, until: Instant<Virtual>) -> Result<(), HoldError>;
    /// Holds the session for the granter again.
    fn stand(&self) -> Result<(), HoldError>;
}
