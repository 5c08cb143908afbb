//! Pausing and dilating single hosts of a session while the others continue.

use std::path::PathBuf;
use std::sync::Arc;

use tracing::debug_span;

use super::Session;
use crate::clock::Host;
use crate::error::GuestError;
use crate::supervise::interrupt;
use crate::supervise::supervisor::PATIENCE;

impl Session {
    /// Returns the hosts of these names.
    ///
    /// # Errors
    /// Fails if a name is unknown, or the list is empty.
    pub fn hosts_named(&self, names: &[String]) -> Result<Vec<Arc<Host>>, GuestError> {
        let hosts = self.hosts.lock();
        let named = || hosts.iter().filter(|host| !host.name().is_empty());
        let mut found: Vec<Arc<Host>> = Vec::new();
        for name in names {
            let Some(host) = named().find(|host| host.name() == name) else {
                let all: Vec<&str> = named().map(|host| host.name()).collect();
                return Err(GuestError::Usage(if all.is_empty() {
                    format!("there is no host `{name}`: this session has no hosts of its own")
                } else {
                    format!("there is no host `{name}`; there are: {}", all.join(", "))
                }));
            };
            if found.iter().all(|other| other.index() != host.index()) {
                found.push(Arc::clone(host));
            }
        }
        if found.is_empty() {
            return Err(GuestError::Usage("no host was named".into()));
        }
        Ok(found)
    }

    /// Returns the host of a session that has only one.
    ///
    /// # Errors
    /// Fails if there are several hosts, which have names.
    pub(crate) fn only_host(&self) -> Result<Arc<Host>, GuestError> {
        let hosts = self.hosts.lock();
        let names: Vec<&str> = hosts.iter().map(|host| host.name()).collect();
        match names[..] {
            [_] => Ok(Arc::clone(&hosts[0])),
            _ => Err(GuestError::Usage(format!(
                "name the host; there are: {}",
                names[1..].join(", ")
            ))),
        }
    }

    /// Returns the path of the cgroup of all programs of this session, or of those of one host.
    /// Returns `None` if the session stops processes by signals.
    ///
    /// # Errors
    /// Fails with the kernel's error if the host's cgroup cannot be created.
    pub fn cgroup(&self, host: Option<&Host>) -> Result<Option<PathBuf>, GuestError> {
        let freezer = &self.supervisor.freezer;
        match host {
            Some(host) => freezer.host_cgroup(host.index()),
            None => Ok(freezer.cgroup().map(PathBuf::from)),
        }
    }

    /// Stops the clocks of these hosts, all at one instant, then their processes, while the session
    /// continues. Returns when all of the processes are stopped. A run of these hosts to a given
    /// instant is cancelled.
    ///
    /// # Errors
    /// Fails if a process cannot be stopped.
    pub fn pause_hosts(&self, hosts: &[Arc<Host>]) -> Result<(), GuestError> {
        let _span = debug_span!("pause hosts", hosts = names(hosts)).entered();
        let _change = self.lock();
        self.clock.hold_hosts(&indices(hosts));
        self.supervisor.timers.look_again();
        for host in hosts {
            let stopped = self.supervisor.freezer.freeze_host(host.index(), PATIENCE);
            self.supervisor.or_end_all(stopped)?;
        }
        for host in hosts {
            self.clock.forget_host_end(host.index());
        }
        Ok(())
    }

    /// Resumes these hosts from where they were stopped. If the session is stopped, they
    /// continue when it is resumed.
    ///
    /// # Errors
    /// Fails if a process cannot be resumed.
    pub fn resume_hosts(&self, hosts: &[Arc<Host>]) -> Result<(), GuestError> {
        let _span = debug_span!("resume hosts", hosts = names(hosts)).entered();
        let _change = self.lock();
        self.clock.release_hosts(&indices(hosts));
        // This must happen before time may skip to the next event.
        self.supervisor.timers.look_again();
        for host in hosts {
            self.supervisor.freezer.thaw_host(host.index())?;
        }
        Ok(())
    }

    /// Sets the dilation of these hosts: session seconds per second of the host. This also applies
    /// to waits in progress.
    ///
    /// # Errors
    /// Fails if the factor is not possible, or if a process cannot be stopped for a moment.
    pub fn dilate_hosts(&self, hosts: &[Arc<Host>], factor: f64) -> Result<(), GuestError> {
        let _span = debug_span!("dilate hosts", hosts = names(hosts), factor).entered();
        let _change = self.lock();
        // The processes of the hosts are stopped meanwhile. Their clocks are not, since otherwise
        // each change of the rate would set them back by that time.
        let mut frozen = Ok(());
        for host in hosts {
            let stopped = self.supervisor.freezer.freeze_host(host.index(), PATIENCE);
            frozen = frozen.and(stopped);
        }
        if frozen.is_ok() {
            self.supervisor.rebase_cpu_time(hosts);
        }
        let dilated = self.clock.dilate_hosts(&indices(hosts), factor);
        self.supervisor.timers.look_again();
        for host in hosts {
            self.supervisor.show_dilation(host);
            if frozen.is_ok() {
                let pids = self.supervisor.freezer.processes_of(host.index());
                interrupt::interrupt_waiting(&pids, &self.supervisor.injector.image.wait);
            }
        }
        for host in hosts {
            if !self.clock.is_held(host.index()) {
                self.supervisor.freezer.thaw_host(host.index())?;
            }
        }
        frozen.and(dilated)
    }
}

/// Returns the names of hosts for the log.
fn names(hosts: &[Arc<Host>]) -> String {
    let names: Vec<&str> = hosts.iter().map(|host| host.name()).collect();
    names.join(", ")
}

fn indices(hosts: &[Arc<Host>]) -> Vec<usize> {
    hosts.iter().map(|host| host.index()).collect()
}
