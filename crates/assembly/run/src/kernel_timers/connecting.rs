//! Initial retransmission timeout of programs' connections: one second of virtual time, or, if
//! computation takes no time, longer than programs compute.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use timeloom_guest::{GuestError, Session};
use timeloom_results::{Caveat, Remedy};
use timeloom_sys::first_timeout::FirstTimeout;

/// Linux's default (TCP_TIMEOUT_INIT).
pub(super) const USUAL: Duration = Duration::from_secs(1);

/// Linux's maximum (TCP_RTO_MAX).
const BEYOND_COMPUTING: Duration = Duration::from_secs(120);

const ALLOW_BPF: Remedy = Remedy::new(
    "Run as root on a kernel with cgroup v2 and CONFIG_CGROUP_BPF, in a container with CAP_BPF and \
     CAP_NET_ADMIN; or do not rest the experiment on how long a first connection takes.",
);

/// Initial timeouts of the session's programs, and of hosts with a dilation of their own.
pub(super) struct FirstTimeouts {
    session: Weak<Session>,
    whole: Option<FirstTimeout>,
    hosts: BTreeMap<String, FirstTimeout>,
    /// The timeouts are longer than any run, whatever the dilation.
    are_beyond: bool,
    /// Reason why the kernel's own timeout remains in use.
    refused: Option<String>,
}

impl FirstTimeouts {
    /// Creates the timeouts without a change.
    pub(super) fn of(session: &Arc<Session>) -> Self {
        Self {
            session: Arc::downgrade(session),
            whole: None,
            hosts: BTreeMap::new(),
            are_beyond: false,
            refused: None,
        }
    }

    /// Sets timeouts longer than any computation: used if computation takes no time or time skips.
    pub(super) fn outlast_computing(&mut self) {
        self.are_beyond = true;
        let set = self.set_whole(BEYOND_COMPUTING);
        self.note(set);
    }

    /// Applies the dilation of the session, and of hosts with their own in addition.
    pub(super) fn dilate<'a>(
        &mut self,
        session: f64,
        hosts: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        if self.are_beyond {
            return;
        }
        let mut set = self.set_whole(dilated(session));
        for (name, own) in hosts {
            // Hosts at the session's pace need no timeout of their own.
            if own != 1.0 || self.hosts.contains_key(name) {
                let of_host = self.set_host(name, dilated(session * own));
                set = set.and(of_host);
            }
        }
        self.note(set);
    }

    /// Returns the timeout on a host with this total dilation.
    pub(super) fn at(&self, dilation: f64) -> Duration {
        match self.refused {
            None => dilated(dilation),
            Some(_) => USUAL,
        }
    }

    /// Returns a caveat if programs see the kernel's own timeouts.
    pub(super) fn lacks(&self) -> Option<Caveat> {
        let why = self.refused.as_ref()?;
        let reason = format!(
            "A connection's first packet is sent again after a second of the machine's time: \
             the kernel takes no other ({why})."
        );
        Some(Caveat::new(reason, ALLOW_BPF))
    }

    fn set_whole(&mut self, timeout: Duration) -> Result<(), GuestError> {
        if let Some(there) = &self.whole {
            return there.change(timeout).map_err(refusing);
        }
        let cgroup = self.session()?.cgroup(None)?;
        self.whole = Some(attach(cgroup, timeout)?);
        Ok(())
    }

    fn set_host(&mut self, name: &str, timeout: Duration) -> Result<(), GuestError> {
        if let Some(there) = self.hosts.get(name) {
            return there.change(timeout).map_err(refusing);
        }
        let session = self.session()?;
        let hosts = session.hosts_named(&[name.to_owned()])?;
        let cgroup = session.cgroup(hosts.first().map(|host| &**host))?;
        let attached = attach(cgroup, timeout)?;
        self.hosts.insert(name.to_owned(), attached);
        Ok(())
    }

    fn session(&self) -> Result<Arc<Session>, GuestError> {
        let session = self.session.upgrade();
        session.ok_or_else(|| GuestError::Usage("the session is over".into()))
    }

    fn note(&mut self, set: Result<(), GuestError>) {
        if let Err(error) = set {
            self.refused.get_or_insert(error.to_string());
        }
    }
}

fn attach(cgroup: Option<PathBuf>, timeout: Duration) -> Result<FirstTimeout, GuestError> {
    let cgroup = cgroup.ok_or_else(|| GuestError::Unsupported("there is no cgroup v2".into()))?;
    FirstTimeout::attach(&cgroup, timeout).map_err(refusing)
}

fn refusing(error: io::Error) -> GuestError {
    GuestError::Unsupported(format!("a program of BPF at the session's cgroup: {error}"))
}

fn dilated(dilation: f64) -> Duration {
    USUAL.mul_f64(dilation.clamp(0.0, 1e9))
}
