//! Requests to single hosts of a session.

use std::sync::{Arc, Weak};

use timeloom_time::{Duration, Instant};

use crate::clock::Host;
use crate::control::controlled::Controlled;
use crate::control::protocol::HostRequest;
use crate::control::until_hosts::{HostTarget, run_hosts_until};
use crate::error::GuestError;

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
