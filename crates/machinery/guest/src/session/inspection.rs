//! Threads of a session, for a user who asks what time waits for.

use std::sync::atomic::Ordering;

use timeloom_time::Duration;

use super::{Process, Session};
use crate::error::GuestError;
use crate::supervise::inspection::{InspectedThread, Inspection, inspect};
use crate::supervise::own_threads;

impl Session {
    /// Inspects all threads of hosts that are not paused alone.
    ///
    /// # Errors
    /// Fails if the processes cannot be listed.
    pub(crate) fn inspect(&self) -> Result<Inspection, GuestError> {
        inspect(&self.supervisor)
    }

    /// Returns the process of an inspected thread.
    pub(crate) fn process_of(&self, thread: &InspectedThread) -> Process {
        let mut described = self.described(&[(thread.host, thread.pid)]);
        described.pop().expect("one process was given")
    }

    /// Returns the wall time for which time could not skip over this thread, if it is the one that
    /// was found last.
    pub(crate) fn busy_for(&self, thread: i32) -> Option<Duration> {
        self.supervisor.busy_for(thread).map(Duration::from)
    }

    /// Returns the hosts on which programs are being started, one for each program. `None` is the
    /// host without a name.
    pub(crate) fn starting(&self) -> Vec<Option<String>> {
        let names = self.host_names();
        let hosts = self.supervisor.starting_hosts().into_iter();
        let mut hosts: Vec<_> = hosts.map(|host| names.get(&host).cloned()).collect();
        if hosts.is_empty() && self.supervisor.is_starting_one() {
            hosts.push(None);
        }
        hosts
    }

    /// Returns true while a change of clock and processes is in progress, or is waited for.
    pub(crate) fn is_changing(&self) -> bool {
        self.supervisor.wanting.load(Ordering::SeqCst) > 0 || self.supervisor.try_change().is_none()
    }

    /// Returns true if the session's owner has work before time may skip.
    pub(crate) fn owner_is_busy(&self) -> bool {
        let quiet = self.supervisor.quiet.get();
        quiet.is_some_and(|quiet| !quiet())
    }

    /// Returns the threads of this process that do not sleep, with their names.
    pub(crate) fn own_threads_awake(&self) -> Vec<(i32, String)> {
        own_threads::awake()
    }
}
