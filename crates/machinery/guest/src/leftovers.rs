//! What a killed supervisor leaves behind, and who removes it.
//!
//! A session leaves things outside its own process: programs that may be
//! frozen, a cgroup, a control socket. A **reaper**, a child that does nothing
//! but wait for the supervisor's end, removes them when that end was not an
//! orderly one. Should the reaper be killed too, `timeloom clean` finds all of
//! it again: the cgroup and the socket carry the session's name, and the
//! programs have the session's clock page mapped.

mod reaper;

use std::fs;
use std::path::{Path, PathBuf};

use crate::freeze::{CGROUP_PREFIX, cgroup2_mount, pids_below, remove_cgroup};
use crate::linux::processes;
use crate::names::{PAGE_PREFIX, PageName, list_sessions, pages_of, runtime_directory};
pub(crate) use reaper::Reaper;

/// What was found and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Programs that were ended.
    pub processes: Vec<i32>,
    /// Cgroups that were removed.
    pub cgroups: Vec<PathBuf>,
    /// Control sockets that were removed.
    pub sockets: Vec<PathBuf>,
}

/// Removes what sessions without a living supervisor left behind.
pub fn clean() -> Leftovers {
    let mut found = Leftovers::default();
    let entries = |path: &Path| {
        fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    // What is there first, who lives second: a session that begins meanwhile is
    // then not taken for dead.
    let sockets: Vec<PathBuf> = entries(&runtime_directory()).collect();
    let cgroups: Vec<PathBuf> = cgroup2_mount()
        .iter()
        .flat_map(|mount| entries(mount))
        .collect();
    let guests = processes::that_map(PAGE_PREFIX);
    let mut living = list_sessions();
    let pages = supervised_pages();
    living.extend(pages.iter().map(|page| page.session().to_owned()));

    for path in sockets {
        let session = name_between(&path, "", ".sock");
        if session.is_some_and(|session| !living.contains(&session)) {
            let _ = fs::remove_file(&path);
            found.sockets.push(path);
        }
    }
    for path in cgroups {
        let session = name_between(&path, CGROUP_PREFIX, "");
        if session.is_some_and(|session| !living.contains(&session)) {
            found.processes.extend(pids_below(&path));
            remove_cgroup(&path);
            found.cgroups.push(path);
        }
    }
    for pid in guests {
        let page = pages_of(pid)
            .into_iter()
            .find(|page| !page.writable)
            .map(|page| page.name);
        if page.is_some_and(|page| !pages.contains(&page) && !page.has_hidden_supervisor()) {
            // SAFETY: a program of a session that nobody supervises any more.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            if !found.processes.contains(&pid) {
                found.processes.push(pid);
            }
        }
    }
    found
}

fn name_between(path: &Path, prefix: &str, suffix: &str) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix(prefix)?.strip_suffix(suffix)?.to_owned())
}

/// The pages that living supervisors write.
fn supervised_pages() -> Vec<PageName> {
    let pages = processes::all().into_iter().flat_map(pages_of);
    pages
        .filter(|page| page.writable)
        .map(|page| page.name)
        .collect()
}
