//! Initial retransmission timeout of the connections that programs open: one second of virtual
//! time. If computation takes no virtual time, the timeout is longer than any computation instead.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use timeloom_guest::{GuestError, Session};
use timeloom_results::{Caveat, Remedy};
use timeloom_sys::first_timeout::FirstTimeout;

/// Linux's default initial timeout (TCP_TIMEOUT_INIT).
pub(super) const USUAL: Duration = Duration::from_secs(1);

/// Linux's maximum retransmission timeout (TCP_RTO_MAX).
const BEYOND_COMPUTING: Duration = Duration::from_secs(120);

const ALLOW_BPF: Remedy = Remedy::new(
    "Run as root on a kernel with cgroup v2 and CONFIG_CGROUP_BPF, in a container with CAP_BPF and \
     CAP_NET_ADMIN; or do not let the experiment depend on the duration of a first connection.",
);

/// Initial timeouts of the session's programs, and of the programs on hosts that have a dilation of
/// their own.
pub(super) struct FirstTimeouts {
    session: Weak<Session>,
    whole: Option<FirstTimeout>,
    hosts: BTreeMap<String, FirstTimeout>,
    /// True if the timeouts are longer than any computation, so that dilation does not change them.
    are_beyond: bool,
    /// Reason why the kernel's own timeout remains in use, if a timeout could not be set.
    refused: Option<String>,
}

impl FirstTimeouts {
    /// Creates the object. The kernel's timeouts stay unchanged until a method sets others.
    pub(super) fn of(session: &Arc<Session>) -> Self {
        Self {
            session: Arc::downgrade(session),
            whole: None,
            hosts: BTreeMap::new(),
            are_beyond: false,
            refused: None,
        }
    }

    /// Sets timeouts longer than any computation. Used if computation takes no time or time skips.
    pub(super) fn outlast_computing(&mut self) {
        self.are_beyond = true;
        let set = self.set_whole(BEYOND_COMPUTING);
        self.note(set);
    }

    /// Lengthens the timeouts by the dilation of the session, and on hosts with a dilation of their
    /// own by the product of both.
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
            // A host that runs at the session's rate needs no timeout of its own.
            if own != 1.0 || self.hosts.contains_key(name) {
                let of_host = self.set_host(name, dilated(session * own));
                set = set.and(of_host);
            }
        }
        self.note(set);
    }

    /// Returns the initial timeout on a host whose total dilation is `dilation`, in real time.
    pub(super) fn at(&self, dilation: f64) -> Duration {
        match self.refused {
            None => dilated(dilation),
            Some(_) => USUAL,
        }
    }

    /// Returns a caveat if programs see the kernel's own timeouts because another could not be set.
    pub(super) fn lacks(&self) -> Option<Caveat> {
        let why = self.refused.as_ref()?;
        let reason = format!(
            "The first packet of a connection is retransmitted after one second of the machine's \
             time: the kernel accepts no other timeout ({why})."
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
