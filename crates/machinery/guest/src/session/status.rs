//! What a session is doing, at a glance.

use timeloom_time::{Duration, Instant, Virtual};

use super::Session;
use crate::clock::HostTime;
use crate::linux::processes;

/// What a session is doing, for `timeloom query`.
#[derive(Clone, Debug)]
pub struct Status {
    /// The session's name.
    pub name: String,
    /// Virtual time since the session began.
    pub virtual_time: Instant<Virtual>,
    /// CLOCK_REALTIME as guests see it, nanoseconds since 1970.
    pub utc_ns: i64,
    /// Wall time since the session began.
    pub wall: Duration,
    /// Wall time during which the clock stood.
    pub paused_total: Duration,
    /// Whether it stands now.
    pub paused: bool,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// Whether time skips while everything waits.
    pub skipping: bool,
    /// How the own time of each host stands against the session's; of hosts that
    /// have names.
    pub hosts: Vec<HostTime>,
    /// Processes: identifier and name.
    pub processes: Vec<(i32, String)>,
}

impl Session {
    /// What the session is doing.
    pub fn status(&self) -> Status {
        let pids = self.supervisor.freezer.processes();
        let (now, mut hosts) = self.clock.host_times();
        hosts.retain(|time| !time.host.name().is_empty());
        Status {
            name: self.name.clone(),
            virtual_time: now,
            utc_ns: self.clock.civil().at(now).as_ns(),
            wall: self.clock.wall_elapsed(),
            paused_total: self.clock.paused_total(),
            paused: self.clock.is_paused(),
            dilation: self.clock.dilation(),
            skipping: self.is_skipping(),
            hosts,
            processes: pids
                .into_iter()
                .map(|pid| (pid, processes::name(pid)))
                .collect(),
        }
    }
}
