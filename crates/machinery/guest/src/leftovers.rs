//! Removal of objects that a killed supervisor has left.
//!
//! A session has objects outside its own process: programs that may be frozen, a cgroup, a control
//! socket. A **reaper**, a child that only waits for the supervisor's end, removes them if that end
//! was not orderly. If the reaper was killed too, `timeloom clean` still finds all of them: the
//! names of the cgroup and the socket contain the session's name, and the programs have the
//! session's clock page mapped. A program that was being started when the supervisor died may have
//! inherited its open descriptors; `heirs` finds these programs.
//!
//! A session is considered dead only on proof. Where processes are hidden, as in a container, the
//! absence of a visible supervisor proves nothing. A supervisor therefore holds a lock on its
//! session's cgroup. A socket is dead if it refuses connections. A program is judged by its clock
//! page only if its supervisor would be visible.

mod heirs;
mod reaper;

use std::fs;
use std::path::{Path, PathBuf};

use timeloom_sys::own;

use crate::error::GuestError;
use crate::freeze::{CGROUP_PREFIX, HELPERS_SUFFIX, is_supervised, pids_below, remove_cgroup};
use crate::linux::processes;
use crate::names::{PageName, pages_of, runtime_directory};
pub(crate) use reaper::Reaper;

/// Report of the leftovers that were found and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Identifiers of programs that were killed.
    pub processes: Vec<i32>,
    /// Paths of cgroups that were removed.
    pub cgroups: Vec<PathBuf>,
    /// Paths of control sockets that were removed.
    pub sockets: Vec<PathBuf>,
}

impl Leftovers {
    fn ended(&mut self, pid: i32) {
        if !self.processes.contains(&pid) {
            self.processes.push(pid);
        }
    }
}

/// Removes the leftovers of sessions without a living supervisor.
///
/// # Errors
/// Fails if other users can write to the directory of control sockets. The error states the remedy.
pub fn clean() -> Result<Leftovers, GuestError> {
    let mut found = Leftovers::default();
    let directory = runtime_directory();
    match own::check(&directory) {
        Err(error) if !error.is_absent() => return Err(GuestError::Usage(error.to_string())),
        _ => {}
    }
    let entries = |path: &Path| {
        fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    // Existing objects are listed before living sessions, so that a session that begins meanwhile
    // is not considered dead.
    let sockets: Vec<PathBuf> = entries(&directory).collect();
    let cgroups: Vec<PathBuf> = timeloom_sys::cgroup::mount()
        .iter()
        .flat_map(|mount| entries(mount))
        .collect();
    let guests = processes::others(|pid| pages_of(pid).iter().any(|page| !page.writable));
    let pages = supervised_pages();
    let mut living: Vec<String> = pages.iter().map(|page| page.session().to_owned()).collect();
    for path in &sockets {
        if let Some(session) = name_between(path, "", ".sock")
            && !living.contains(&session)
            && heirs::may_be_supervised(path)
        {
            living.push(session);
        }
    }
    for path in &cgroups {
        if let Some(session) = name_between(path, CGROUP_PREFIX, "")
            && !living.contains(&session)
            && is_supervised(path)
        {
            living.push(session);
        }
    }
    let is_dead = |page: &PageName| {
        let is_known = pages.contains(page) || living.iter().any(|it| it == page.session());
        !is_known && page.may_be_judged() && !page.has_hidden_supervisor()
    };

    // Connections are ended first: a process that waits for an answer of a dead supervisor cannot
    // be killed.
    heirs::end_connections(is_dead);
    for path in sockets {
        let session = name_between(&path, "", ".sock");
        if session.is_some_and(|session| !living.contains(&session)) {
            for pid in heirs::end_holders(&path) {
                found.ended(pid);
            }
            let _ = fs::remove_file(&path);
            found.sockets.push(path);
        }
    }
    for path in cgroups {
        let session = name_between(&path, CGROUP_PREFIX, HELPERS_SUFFIX)
            .or_else(|| name_between(&path, CGROUP_PREFIX, ""));
        if session.is_some_and(|session| !living.contains(&session)) {
            // Processes of other PID namespaces have the number 0 here.
            let numbered = pids_below(&path).into_iter().filter(|&pid| pid != 0);
            found.processes.extend(numbered);
            remove_cgroup(&path);
            found.cgroups.push(path);
        }
    }
    let is_left = |pid: i32| {
        let page = pages_of(pid).into_iter().find(|page| !page.writable);
        page.is_some_and(|page| is_dead(&page.name))
    };
    for pid in guests {
        // The program belongs to a session without a supervisor.
        if is_left(pid) && processes::kill_if(pid, is_left) {
            found.ended(pid);
        }
    }
    Ok(found)
}

fn name_between(path: &Path, prefix: &str, suffix: &str) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix(prefix)?.strip_suffix(suffix)?.to_owned())
}

/// Returns the names of the clock pages that living supervisors write. A child that has not
/// executed its program yet shares its supervisor's memory, and may outlive it.
fn supervised_pages() -> Vec<PageName> {
    let pages = |pid| pages_of(pid).into_iter().map(move |page| (pid, page));
    let pages = processes::all().into_iter().flat_map(pages);
    pages
        .filter(|(pid, page)| page.writable && page.name.is_of_supervisor(*pid))
        .map(|(_, page)| page.name)
        .collect()
}
