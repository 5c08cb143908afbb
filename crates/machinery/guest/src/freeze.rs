//! Stopping and resuming the processes of a session, or of one of its hosts.
//!
//! The clock stops when the clock page is written. Stopping the processes prevents them from
//! computing while no time passes. There are two methods:
//!
//! - the cgroup v2 **freezer**: one write stops all processes in the group, including those that
//!   are just being forked, and no process can observe this. Needs root.
//! - **signals**: SIGSTOP and SIGCONT to each process. A parent may observe this (SIGCHLD,
//!   WUNTRACED), so it is the second choice.
//!
//! A process is stopped as long as its session or its host is stopped.

mod cgroup;
mod signals;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::GuestError;
use crate::linux::processes;
use crate::names::PageName;
use cgroup::CgroupFreezer;
pub(crate) use cgroup::{
    CGROUP_PREFIX, HELPERS_SUFFIX, is_supervised, pids_below, remove_cgroup, remove_session,
};
use signals::SignalFreezer;

/// Method of stopping the processes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezeKind {
    /// Cgroup v2 freezer.
    Cgroup,
    /// SIGSTOP and SIGCONT.
    Signals,
}

pub(crate) enum Freezer {
    /// Contains, besides the freezer, the name of the session's clock page, which identifies its
    /// processes.
    Cgroup(CgroupFreezer, PageName),
    Signals(SignalFreezer),
}

impl Freezer {
    /// Creates the best freezer that this process may use. `session` becomes part of the cgroup's
    /// name; `page` identifies the session's processes.
    ///
    /// # Errors
    /// Fails if a cgroup of this name exists already. (Signals would work without a cgroup, but the
    /// removal of one session's cgroup would end the programs of the other session.)
    pub(crate) fn new(session: &str, page: &PageName) -> Result<Self, GuestError> {
        match CgroupFreezer::new(session) {
            Ok(freezer) => Ok(Self::Cgroup(freezer, page.clone())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(GuestError::Usage(format!(
                    "a session named `{session}` is already running, or was killed and has left its cgroup \
                 (`timeloom clean` removes that)"
                )))
            }
            Err(_) => Ok(Self::Signals(SignalFreezer::new(page))),
        }
    }

    pub(crate) fn kind(&self) -> FreezeKind {
        match self {
            Self::Cgroup(..) => FreezeKind::Cgroup,
            Self::Signals(_) => FreezeKind::Signals,
        }
    }

    /// Returns the path of the session's cgroup; `None` if processes are stopped by signals.
    pub(crate) fn cgroup(&self) -> Option<&Path> {
        match self {
            Self::Cgroup(freezer, _) => Some(freezer.directory()),
            Self::Signals(_) => None,
        }
    }

    /// Returns the path of the cgroup of one host, given by number; `None` if processes are stopped
    /// by signals.
    pub(crate) fn host_cgroup(&self, host: usize) -> Result<Option<PathBuf>, GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.host_directory(host).map(Some),
            Self::Signals(_) => Ok(None),
        }
    }

    /// Adds a process to a host, given by number. The process must be stopped now. It is not
    /// resumed while the session or the host is stopped.
    pub(crate) fn adopt(&self, pid: i32, host: usize) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.adopt(pid, host),
            Self::Signals(freezer) => freezer.adopt(pid),
        }
    }

    /// Stops a process again that a tracer is about to release, and that has therefore missed our
    /// signals.
    pub(crate) fn keep_stopped(&self, pid: i32) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(..) => Ok(()),
            Self::Signals(freezer) => freezer.adopt(pid),
        }
    }

    /// Removes a process from the session. It returns to the cgroup `home`, in which it was before.
    pub(crate) fn let_go(&self, pid: i32, home: Option<&Path>) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.let_go(pid, home),
            Self::Signals(freezer) => {
                freezer.let_go(pid);
                Ok(())
            }
        }
    }

    /// Returns all processes of the session, as far as they can be listed.
    pub(crate) fn processes(&self) -> Vec<i32> {
        match self {
            Self::Cgroup(freezer, _) => freezer.processes(),
            Self::Signals(freezer) => freezer.processes(),
        }
    }

    /// Returns all processes like [`Self::processes`], or an error instead of an incomplete list.
    ///
    /// # Errors
    /// Fails if the processes cannot be listed because no descriptor is left or the cgroup was
    /// removed.
    pub(crate) fn list(&self) -> Result<Vec<i32>, GuestError> {
        match self {
            Self::Cgroup(freezer, _) => {
                let all = freezer.list_with_hosts()?;
                Ok(all.into_iter().map(|(_, pid)| pid).collect())
            }
            Self::Signals(freezer) => freezer.list(),
        }
    }

    /// Returns all processes like [`Self::list`], each with the number of its host, sorted by host.
    ///
    /// # Errors
    /// Fails like [`Self::list`].
    pub(crate) fn list_with_hosts(&self) -> Result<Vec<(usize, i32)>, GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.list_with_hosts(),
            Self::Signals(freezer) => freezer.list_with_hosts(),
        }
    }

    /// Returns the processes of the host with this number.
    pub(crate) fn processes_of(&self, host: usize) -> Vec<i32> {
        match self {
            Self::Cgroup(freezer, _) => freezer.processes_of(host),
            Self::Signals(freezer) => freezer.processes_of(host),
        }
    }

    /// Returns the processes of hosts that are not held.
    ///
    /// # Errors
    /// Fails like [`Self::list`].
    pub(crate) fn processes_not_held(&self) -> Result<Vec<i32>, GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.processes_not_held(),
            Self::Signals(freezer) => freezer.processes_not_held(),
        }
    }

    /// Stops all processes. Returns when all are stopped; after `patience`, returns an error.
    pub(crate) fn freeze(&self, patience: Duration) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.freeze(patience),
            Self::Signals(freezer) => freezer.freeze(patience),
        }
    }

    /// Resumes all processes except those of hosts that are held.
    pub(crate) fn thaw(&self) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.thaw(),
            Self::Signals(freezer) => {
                freezer.thaw();
                Ok(())
            }
        }
    }

    /// Stops the processes of one host, like [`Self::freeze`].
    pub(crate) fn freeze_host(&self, host: usize, patience: Duration) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.freeze_host(host, patience),
            Self::Signals(freezer) => freezer.freeze_host(host, patience),
        }
    }

    /// Resumes the processes of one host, unless the session is stopped.
    pub(crate) fn thaw_host(&self, host: usize) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.thaw_host(host),
            Self::Signals(freezer) => {
                freezer.thaw_host(host);
                Ok(())
            }
        }
    }

    /// Creates a cgroup for a helper: a process that works for the session and is never stopped.
    /// Returns `None` if processes are stopped by signals.
    pub(crate) fn helper(&self) -> io::Result<Option<PathBuf>> {
        match self {
            Self::Cgroup(freezer, _) => freezer.helper().map(Some),
            Self::Signals(_) => Ok(None),
        }
    }

    /// Ends all processes of the session and removes the freezer's objects. (This is not left to
    /// `drop`: threads that serve the session's last processes may keep the freezer alive until
    /// after the end of our own process.)
    pub(crate) fn remove(&self) {
        self.kill_all();
        if let Self::Cgroup(freezer, _) = self {
            freezer.remove();
        }
    }

    /// Kills all processes of the session, stopped or not.
    pub(crate) fn kill_all(&self) {
        match self {
            Self::Cgroup(freezer, _) => freezer.kill_all(),
            Self::Signals(freezer) => freezer.kill_all(),
        }
    }

    /// Kills all processes like [`Self::kill_all`], including those that were moved out of the
    /// cgroup.
    pub(crate) fn kill_wherever_they_are(&self) {
        self.kill_all();
        if let Self::Cgroup(_, page) = self {
            for pid in page.mapped_by() {
                processes::kill_if(pid, |pid| page.is_page_of(pid));
            }
        }
    }
}
