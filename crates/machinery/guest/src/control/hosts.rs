//! Requests of clients that concern single hosts of a session.

use std::sync::{Arc, Weak};

use timeloom_time::{Duration, Instant};

use crate::clock::Host;
use crate::control::controlled::Controlled;
use crate::control::error::{Refusal, RunUntilError};
use crate::control::protocol::HostRequest;
use crate::control::until_hosts::{HostTarget, run_hosts_until};

/// Executes a request on these hosts. If the hosts were to stop at an instant, returns the maximum
/// time from the stop of a host's clock to the stop of its processes.
pub(super) fn obey<C: Controlled>(
    controlled: &Weak<C>,
    hosts: &[Arc<Host>],
    request: HostRequest,
) -> Result<Option<Duration>, Refusal> {
    let held = controlled.upgrade().ok_or(Refusal::Ended)?;
    let session = held.session();
    let target = match request {
        HostRequest::Pause => {
            session.pause_hosts(hosts)?;
            return Ok(None);
        }
        HostRequest::Resume => {
            session.resume_hosts(hosts)?;
            return Ok(None);
        }
        HostRequest::Dilate { factor } => {
            session.dilate_hosts(hosts, factor)?;
            return Ok(None);
        }
        HostRequest::Step { span_ns } => {
            let running = hosts
                .iter()
                .find(|host| !session.clock().is_held(host.index()));
            if let Some(host) = running {
                return Err(Refusal::HostRunning {
                    host: host.name().to_owned(),
                });
            }
            after(span_ns)?
        }
        HostRequest::RunUntil { at_ns, relative } => match relative {
            true => after(at_ns)?,
            false => HostTarget::At(Instant::from_ns(at_ns)),
        },
    };
    drop(held);
    Ok(Some(run_hosts_until(controlled, hosts, target)?))
}

fn after(span_ns: i64) -> Result<HostTarget, RunUntilError> {
    if span_ns <= 0 {
        return Err(RunUntilError::NoSpan);
    }
    Ok(HostTarget::After(Duration::from_ns(span_ns)))
}
