//! Status of a session, and list of its processes.

use std::collections::BTreeMap;

use timeloom_time::{Duration, Instant, Virtual};

use super::Session;
use crate::clock::HostTimeState;
use crate::error::GuestError;
use crate::linux::processes::{self, Family};

/// Status of a session, for `timeloom query`.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// Name of the session.
    pub name: String,
    /// Virtual time since the session began.
    pub virtual_time: Instant<Virtual>,
    /// CLOCK_REALTIME as guests see it, in nanoseconds since 1970.
    pub utc_ns: i64,
    /// Wall time since the session began.
    pub wall: Duration,
    /// Total wall time during which the clock was stopped.
    pub paused_total: Duration,
    /// True if the clock is stopped now.
    pub paused: bool,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// True if time skips while all threads wait.
    pub skipping: bool,
    /// State of each host's own time, compared with the session's. Only hosts with names are
    /// listed.
    pub hosts: Vec<HostTimeState>,
}

/// Process of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process identifier.
    pub pid: i32,
    /// Name of the process, as in `ps`.
    pub name: String,
    /// Name of the process's host; `None` if the session's only host has no name.
    pub host: Option<String>,
    /// Name of the program to which the process belongs; `None` if that has no name.
    pub program: Option<String>,
}

impl Session {
    /// Returns the status of the session without its processes, of which there may be thousands.
    /// [`Self::processes`] returns these.
    pub fn status(&self) -> SessionStatus {
        let (now, mut hosts) = self.clock.host_times();
        hosts.retain(|time| !time.host.name().is_empty());
        SessionStatus {
            name: self.name.clone(),
            virtual_time: now,
            utc_ns: self.clock.civil().at(now).as_ns(),
            wall: self.clock.wall_elapsed(),
            paused_total: self.clock.paused_total(),
            paused: self.clock.is_paused(),
            dilation: self.clock.dilation(),
            skipping: self.is_skipping(),
            hosts,
        }
    }

    /// Returns the processes of the session, sorted by host. Reads several files in `/proc` for
    /// each process.
    ///
    /// # Errors
    /// Fails if the processes cannot be read, since an empty list would be wrong.
    pub fn processes(&self) -> Result<Vec<Process>, GuestError> {
        let listed = self.supervisor.freezer.list_with_hosts()?;
        Ok(self.described(&listed))
    }

    /// Returns these processes, each given with the number of its host, with their names.
    pub(super) fn described(&self, listed: &[(usize, i32)]) -> Vec<Process> {
        let names = self.host_names();
        let programs = self.programs.lock();
        let process = |&(host, pid): &(usize, i32)| Process {
            pid,
            name: processes::name(pid),
            host: names.get(&host).cloned(),
            program: program_of(&programs, pid, processes::family),
        };
        listed.iter().map(process).collect()
    }

    /// Returns the names of the hosts by number, without those that have none.
    pub(super) fn host_names(&self) -> BTreeMap<usize, String> {
        let hosts = self.hosts.lock();
        let named = hosts.iter().filter(|host| !host.name().is_empty());
        let named = named.map(|host| (host.index(), host.name().to_owned()));
        named.collect()
    }
}

/// Returns the name of the program to which a process belongs: the program that was started under a
/// name and that is the process itself or its nearest ancestor. An orphan is attributed by its
/// process group.
fn program_of(
    programs: &[(i32, String)],
    pid: i32,
    family: impl Fn(i32) -> Option<Family>,
) -> Option<String> {
    let named = |pid: i32| {
        let newest = programs.iter().rev().find(|(started, _)| *started == pid);
        newest.map(|(_, name)| name.clone())
    };
    let mut at = pid;
    for _ in 0..DEEPEST {
        if let Some(name) = named(at) {
            return Some(name);
        }
        let family = family(at)?;
        if let Some(name) = named(family.group) {
            return Some(name);
        }
        if family.parent <= 1 {
            return None;
        }
        at = family.parent;
    }
    None
}

/// Maximum number of ancestors that are examined.
const DEEPEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_the_program_that_it_descends_from() {
        let programs = [(10, "plc".to_owned()), (20, "scada".to_owned())];
        // Processes 11 and 12 descend from 10; 13 is an orphan of its group; 30 is unrelated.
        let family = |pid| {
            let (parent, group) = match pid {
                10 | 20 => (5, pid),
                11 => (10, 11),
                12 => (11, 12),
                13 => (1, 10),
                30 => (1, 30),
                _ => return None,
            };
            Some(Family { parent, group })
        };
        let named = |pid| program_of(&programs, pid, family);
        for pid in [10, 11, 12, 13] {
            assert_eq!(named(pid).as_deref(), Some("plc"), "{pid}");
        }
        assert_eq!(named(20).as_deref(), Some("scada"));
        assert_eq!(named(30), None);
        assert_eq!(named(99), None, "gone meanwhile");
    }
}
