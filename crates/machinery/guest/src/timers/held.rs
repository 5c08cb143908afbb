//! Which timerfds some process still has.
//!
//! The kernel does not tell how many hold a file, so all descriptors of all processes are
//! looked at.

use std::collections::BTreeSet;
use std::fs;

use super::eventfd::eventfd_id;
use super::{Key, Timers};
use crate::linux::processes;

impl Timers {
    /// Drops the timerfds that no process has any more.
    pub(crate) fn forget_unheld(&self) {
        // First, so that one made meanwhile is kept.
        let known: Vec<Key> = self.lock().timers.keys().copied().collect();
        if !known.iter().any(|key| matches!(key, Key::Descriptor(_))) {
            return;
        }
        let Some(held) = held() else { return };
        self.lock().timers.retain(|key, _| match key {
            Key::Descriptor(id) => held.contains(id) || !known.contains(key),
            _ => true,
        });
        self.look_again();
    }
}

/// The identities of the eventfds that somebody has, but for the one descriptor of each
/// that is our own. `None` when descriptors are on their way through a socket: of what
/// they are nobody can tell.
fn held() -> Option<BTreeSet<u64>> {
    let own = std::process::id() as i32;
    let mut held = BTreeSet::new();
    let mut ours = Vec::new();
    for pid in processes::all() {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(to) = fs::read_link(entry.path()) else {
                continue;
            };
            let Some(fd) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
                continue;
            };
            let to = to.as_os_str().as_encoded_bytes();
            if to.starts_with(b"socket:") && carries_descriptors(pid, fd) {
                return None;
            }
            if to != b"anon_inode:[eventfd]" {
                continue;
            }
            let Some(id) = eventfd_id(&pid.to_string(), fd) else {
                continue;
            };
            // A second one of ours is about to be given to a guest.
            if pid == own && !ours.contains(&id) {
                ours.push(id);
            } else {
                held.insert(id);
            }
        }
    }
    Some(held)
}

/// Whether descriptors that were sent wait in a socket to be received.
fn carries_descriptors(pid: i32, fd: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    count.is_some_and(|count| count.trim() != "0")
}
