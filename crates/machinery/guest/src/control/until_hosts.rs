//! Runs of single hosts until a given instant of their own time.
//!
//! This works like [`mod@super::until`] for a session: the map on the host's page ends at the
//! instant, for every reader. A thread waits here for that and then stops the host's processes too,
//! while the other hosts continue.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use timeloom_clock::HostTime;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant};

use crate::clock::Host;
use crate::control::controlled::Controlled;
use crate::control::error::RunUntilError;
use crate::session::Session;

/// Instant at which hosts are to stop.
#[derive(Clone, Copy, Debug)]
pub enum HostTarget {
    /// Instant of each host's own time.
    At(Instant<HostTime>),
    /// Span of each host's own time, from its present time.
    After(Duration),
}

/// Lets each of these hosts run until its own time reaches the target, then pauses it. Paused hosts
/// are resumed first. Returns the maximum time from the stop of a host's clock to the stop of its
/// processes.
///
/// # Errors
/// Fails if the session is stopped, so that no time passes for its hosts; if the instant is in the
/// past; if a run of a host to another instant is in progress; or if a host was paused or the
/// session ended before the instant.
pub fn run_hosts_until<C: Controlled>(
    controlled: &Weak<C>,
    hosts: &[Arc<Host>],
    target: HostTarget,
) -> Result<Duration, RunUntilError> {
    // No reference is kept during the wait: the session ends when its owner drops it.
    let held = controlled.upgrade().ok_or(RunUntilError::Ended)?;
    if held.is_held() {
        return Err(RunUntilError::SessionStands);
    }
    let session = held.session();
    let clock = Arc::clone(session.clock());
    let closing = Arc::clone(&session.closing);
    let targets = targets(session, hosts, target)?;
    let mut pending = clock.end_hosts_at(&targets)?;
    if let Err(error) = session.resume_hosts(hosts) {
        hosts
            .iter()
            .for_each(|host| clock.forget_host_end(host.index()));
        return Err(error.into());
    }
    drop(held);
    let (mut stood_for, mut trouble) = (Duration::ZERO, None);
    while !pending.is_empty() {
        let gone = || closing.load(Ordering::SeqCst) || controlled.strong_count() == 0;
        let over = clock.wait_for_host_ends(&pending, gone);
        if closing.load(Ordering::SeqCst) {
            return Err(RunUntilError::Ended);
        }
        pending.retain(|end| over.iter().all(|(other, _)| other.host != end.host));
        let held = controlled.upgrade().ok_or(RunUntilError::Ended)?;
        for (end, reached) in over {
            let host = hosts.iter().find(|host| host.index() == end.host);
            let Some(host) = host else { continue };
            let Some(reached) = reached else {
                trouble.get_or_insert_with(|| RunUntilError::HostPaused {
                    host: host.name().to_owned(),
                });
                continue;
            };
            let paused = held.session().pause_hosts(std::slice::from_ref(host));
            stood_for = stood_for.max(wall_now() - reached);
            if let Err(error) = paused {
                trouble.get_or_insert_with(|| error.into());
            }
        }
    }
    trouble.map_or(Ok(stood_for), Err)
}

fn targets(
    session: &Session,
    hosts: &[Arc<Host>],
    target: HostTarget,
) -> Result<Vec<(usize, Instant<HostTime>)>, RunUntilError> {
    let (_, times) = session.clock().host_times();
    let mut targets = Vec::new();
    for host in hosts {
        let at = match target {
            HostTarget::At(at) => at,
            HostTarget::After(span) => {
                let lived = times.iter().find(|time| time.host.index() == host.index());
                let lived_ns = lived.map_or(0, |time| time.lived.as_ns());
                let at_ns = lived_ns.checked_add(span.as_ns());
                Instant::from_ns(at_ns.ok_or(RunUntilError::SpanTooLong)?)
            }
        };
        targets.push((host.index(), at));
    }
    Ok(targets)
}
