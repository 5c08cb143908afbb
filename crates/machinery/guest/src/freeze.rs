//! Stopping and continuing the processes of a session, or of one of its hosts.
//!
//! The clock stands from the store into the clock page on; stopping the processes keeps them from
//! computing while no time passes. There are two methods:
//!
//! - the cgroup v2 **freezer**: one write stops everything in the group, including processes that
//!   are just being forked, and no process can see it. Needs root.
//! - **signals**: SIGSTOP and SIGCONT to each process. A parent may notice (SIGCHLD, WUNTRACED),
//!   hence the second choice.
//!
//! A process is stopped as long as its session is stopped, or its host, or both.

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
    /// Also holds the session's clock page, which identifies its processes.
    Cgroup(CgroupFreezer, PageName),
    Signals(SignalFreezer),
}

impl Freezer {
    /// Makes the best freezer that this process may use. `session` names the cgroup; `page`
    /// identifies the session's processes.
    ///
    /// # Errors
    /// Fails if there is a cgroup of this name already. (Signals would do without, but removing one
    /// session's cgroup would end the other's programs.)
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

    /// Returns the cgroup, if there is one.
    pub(crate) fn cgroup(&self) -> Option<&Path> {
        match self {
            Self::Cgroup(freezer, _) => Some(freezer.directory()),
            Self::Signals(_) => None,
        }
    }

    /// Returns the cgroup of one host, if there are cgroups.
    pub(crate) fn host_cgroup(&self, host: usize) -> Result<Option<PathBuf>, GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.host_directory(host).map(Some),
            Self::Signals(_) => Ok(None),
        }
    }

    /// Adds a process to a host; the process must be stopped at the moment. While the session or
    /// the host is stopped, the process will not continue.
    pub(crate) fn adopt(&self, pid: i32, host: usize) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.adopt(pid, host),
            Self::Signals(freezer) => freezer.adopt(pid),
        }
    }

    /// Stops a process again that is about to be released by a tracer and has therefore missed our
    /// signals.
    pub(crate) fn keep_stopped(&self, pid: i32) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(..) => Ok(()),
            Self::Signals(freezer) => freezer.adopt(pid),
        }
    }

    /// Removes a process from the session, into the cgroup `home` where it was before.
    pub(crate) fn let_go(&self, pid: i32, home: Option<&Path>) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.let_go(pid, home),
            Self::Signals(freezer) => {
                freezer.let_go(pid);
                Ok(())
            }
        }
    }

    /// Returns all processes of the session.
    pub(crate) fn processes(&self) -> Vec<i32> {
        match self {
            Self::Cgroup(freezer, _) => freezer.processes(),
            Self::Signals(freezer) => freezer.processes(),
        }
    }

    /// Returns all processes like [`Self::processes`], or an error instead of an incomplete list.
    ///
    /// # Errors
    /// Fails if the processes cannot be listed: no descriptor is left, or the cgroup was removed.
    pub(crate) fn list(&self) -> Result<Vec<i32>, GuestError> {
        match self {
            Self::Cgroup(freezer, _) => {
                let all = freezer.list_with_hosts()?;
                Ok(all.into_iter().map(|(_, pid)| pid).collect())
            }
            Self::Signals(freezer) => freezer.list(),
        }
    }

    /// Returns all processes like [`Self::list`], each with the number of its host, host by host.
    ///
    /// # Errors
    /// Fails like [`Self::list`].
    pub(crate) fn list_with_hosts(&self) -> Result<Vec<(usize, i32)>, GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.list_with_hosts(),
            Self::Signals(freezer) => freezer.list_with_hosts(),
        }
    }

    /// Returns the processes of one host.
    pub(crate) fn processes_of(&self, host: usize) -> Vec<i32> {
        match self {
            Self::Cgroup(freezer, _) => freezer.processes_of(host),
            Self::Signals(freezer) => freezer.processes_of(host),
        }
    }

    /// Returns the processes of hosts that are not held.
    pub(crate) fn processes_not_held(&self) -> Vec<i32> {
        match self {
            Self::Cgroup(freezer, _) => freezer.processes_not_held(),
            Self::Signals(freezer) => freezer.processes_not_held(),
        }
    }

    /// Stops all processes; returns when all are stopped, or with an error after `patience`.
    pub(crate) fn freeze(&self, patience: Duration) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.freeze(patience),
            Self::Signals(freezer) => freezer.freeze(patience),
        }
    }

    /// Continues all processes except those of stopped hosts.
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

    /// Continues the processes of one host, unless the session is stopped.
    pub(crate) fn thaw_host(&self, host: usize) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer, _) => freezer.thaw_host(host),
            Self::Signals(freezer) => {
                freezer.thaw_host(host);
                Ok(())
            }
        }
    }

    /// Makes a cgroup for a process that works for the session and is never stopped; `None` if
    /// there are no cgroups.
    pub(crate) fn helper(&self) -> io::Result<Option<PathBuf>> {
        match self {
            Self::Cgroup(freezer, _) => freezer.helper().map(Some),
            Self::Signals(_) => Ok(None),
        }
    }

    /// Ends everything in the session and removes the freezer's objects. (Not left to `drop`:
    /// threads that serve the session's last processes may hold the freezer for longer than our own
    /// process lives.)
    pub(crate) fn remove(&self) {
        self.kill_all();
        if let Self::Cgroup(freezer, _) = self {
            freezer.remove();
        }
    }

    /// Kills everything in the session, frozen or not.
    pub(crate) fn kill_all(&self) {
        match self {
            Self::Cgroup(freezer, _) => freezer.kill_all(),
            Self::Signals(freezer) => freezer.kill_all(),
        }
    }

    /// Kills like [`Self::kill_all`], including processes that were moved out of the cgroup.
    pub(crate) fn kill_wherever_they_are(&self) {
        self.kill_all();
        if let Self::Cgroup(_, page) = self {
            for pid in page.mapped_by() {
                processes::kill_if(pid, |pid| page.is_page_of(pid));
            }
        }
    }
}
