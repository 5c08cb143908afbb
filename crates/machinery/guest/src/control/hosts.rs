//! Requests to single hosts of a session.

use std::sync::{Arc, Weak};

use serde::{Deserialize, Serialize};
use timeloom_time::{Duration, Instant};

use super::Controlled;
use crate::clock::{Host, HostTime};
use crate::control::until_hosts::{HostTarget, run_hosts_until};
use crate::error::GuestError;

/// What a client asks of some hosts of a session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum HostRequest {
    /// Stop their clocks and processes.
    Pause,
    /// Let them go on from where they stand.
    Resume,
    /// Seconds of the session per second of the host from now on.
    Dilate {
        /// The new factor.
        factor: f64,
    },
    /// From where they are paused, run for exactly so much of their own time; then
    /// pause. The answer comes when that is done.
    Step {
        /// How long, in nanoseconds.
        span_ns: i64,
    },
    /// Run until an instant of their own time, then pause; as [`Self::Step`].
    #[serde(rename = "run-until")]
    RunUntil {
        /// Nanoseconds that they have lived through since the session began, or
        /// from now.
        at_ns: i64,
        /// From now.
        relative: bool,
    },
}

/// How the own time of a host stands against the session's.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct HostText {
    /// Its name.
    pub name: String,
    /// The virtual time that it has lived through since the session began.
    pub virtual_ns: i64,
    /// How much it has missed; negative when it is ahead.
    pub behind_ns: i64,
    /// Whether it is paused by itself.
    pub paused: bool,
    /// Seconds of the session per second of the host.
    pub dilation: f64,
}

impl From<HostTime> for HostText {
    fn from(time: HostTime) -> Self {
        Self {
            name: time.host.name().to_owned(),
            virtual_ns: time.lived.as_ns(),
            behind_ns: time.behind.as_ns(),
            paused: time.held,
            dilation: time.dilation,
        }
    }
}

/// Does what was asked of these hosts. What that took beyond, if they were to stop
/// at an instant.
pub(super) fn obey<C: Controlled>(
    controlled: &Weak<C>,
    hosts: &[Arc<Host>],
    request: HostRequest,
) -> Result<Option<Duration>, String> {
    let held = controlled.upgrade().ok_or("the session has ended")?;
    let session = held.session();
    let text = |error: GuestError| error.to_string();
    let target = match request {
        HostRequest::Pause => {
            return session.pause_hosts(hosts).map(|()| None).map_err(text);
        }
        HostRequest::Resume => return session.resume_hosts(hosts).map(|()| None).map_err(text),
        HostRequest::Dilate { factor } => {
            let dilated = session.dilate_hosts(hosts, factor);
            return dilated.map(|()| None).map_err(text);
        }
        HostRequest::Step { span_ns } => {
            let running = hosts
                .iter()
                .find(|host| !session.clock().is_held(host.index()));
            if let Some(host) = running {
                let name = host.name();
                return Err(format!(
                    "host {name} is running; `timeloom pause --host {name}` it first, or `timeloom run-until --host {name} +SPAN`"
                ));
            }
            after(span_ns)?
        }
        HostRequest::RunUntil { at_ns, relative } => match relative {
            true => after(at_ns)?,
            false => HostTarget::At(Instant::from_ns(at_ns)),
        },
    };
    drop(held);
    run_hosts_until(controlled, hosts, target).map(Some)
}

fn after(span_ns: i64) -> Result<HostTarget, String> {
    if span_ns <= 0 {
        return Err("a span to run must be more than zero".into());
    }
    Ok(HostTarget::After(Duration::from_ns(span_ns)))
}
