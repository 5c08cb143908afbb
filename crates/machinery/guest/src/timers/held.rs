//! Detection of timerfds that no process has open any more.
//!
//! The kernel does not report the number of references to a file, so all descriptors of all
//! processes are examined.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use super::eventfd::identity_in;
use super::{Key, Timers};
use crate::linux::processes;

impl Timers {
    /// Removes the timerfds that are not open in any process.
    pub(crate) fn forget_unheld(&self) {
        // The known timers are listed first, so that a timerfd created meanwhile is kept.
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

/// Returns the identities of the open eventfds. One descriptor of each is this process's own and
/// does not count. Returns `None` if the eventfds cannot be determined.
fn held() -> Option<BTreeSet<u64>> {
    let own = std::process::id() as i32;
    let mut ours = BTreeSet::new();
    let mut held = BTreeSet::new();
    each_process(
        own,
        || processes::try_all().ok(),
        |pid| {
            for id in eventfds_of(pid)? {
                // A second descriptor in this process is about to be given to a guest.
                if pid != own || !ours.insert(id) {
                    held.insert(id);
                }
            }
            Some(())
        },
    )?;
    Some(held)
}

/// Calls the function for each process, this one first: a descriptor that this process has given
/// away by then is found in its receiver. A process that is listed only afterwards may have been
/// forked by one that had closed its descriptors before it was examined, so the list is read again.
/// Returns `None` if a process cannot be examined.
fn each_process(
    own: i32,
    list: impl Fn() -> Option<Vec<i32>>,
    mut look: impl FnMut(i32) -> Option<()>,
) -> Option<()> {
    look(own)?;
    let mut seen = BTreeSet::from([own]);
    for _ in 0..ROUNDS {
        let mut new = list()?;
        new.retain(|pid| !seen.contains(pid));
        if new.is_empty() {
            break;
        }
        for pid in new {
            look(pid)?;
            seen.insert(pid);
        }
    }
    Some(())
}

/// Maximum number of rounds: one for all processes, one for those that came meanwhile, and one for
/// those that came during the second. There is a limit because a busy machine always has new
/// processes.
const ROUNDS: usize = 3;

/// Returns the identities of all eventfds that a process has open. Returns `None` if they cannot be
/// determined: descriptors are in transit through a socket of the process, or this process may open
/// no more files.
fn eventfds_of(pid: i32) -> Option<Vec<u64>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => entries,
        // The process has ended; or it belongs to another user, and is no guest of an unprivileged
        // session.
        Err(error) if !is_full(&error) => return Some(found),
        Err(_) => return None,
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
        if to == b"anon_inode:[eventfd]" {
            match fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")) {
                Ok(text) => found.extend(identity_in(&text)),
                Err(error) if is_full(&error) => return None,
                // The descriptor was closed meanwhile.
                Err(_) => {}
            }
        }
    }
    Some(found)
}

/// Returns true if this process, or the machine, may open no more files.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Returns true if a socket holds descriptors that were sent but not received yet.
fn carries_descriptors(pid: i32, fd: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    count.is_some_and(|count| count.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// One process is forked while the first are examined, and another one during the second round.
    #[test]
    fn new_processes_are_examined_and_the_own_process_comes_first() {
        let seen = RefCell::new(Vec::new());
        let list = || match seen.borrow().len() {
            1 => Some(vec![3, 7, 9]),
            3 => Some(vec![3, 5, 9]),
            _ => Some(vec![4, 5, 9]),
        };
        let all = each_process(7, list, |pid| {
            seen.borrow_mut().push(pid);
            Some(())
        });
        assert_eq!(all, Some(()));
        assert_eq!(*seen.borrow(), [7, 3, 9, 5, 4]);
    }

    #[test]
    fn an_endless_supply_of_new_processes_is_bounded() {
        let next = RefCell::new(100);
        let ever_more = || Some(vec![next.replace_with(|next| *next + 1)]);
        assert_eq!(each_process(7, ever_more, |_| Some(())), Some(()));
    }

    #[test]
    fn one_unreadable_process_makes_the_answer_unknown() {
        let all = || Some(vec![3, 7, 9]);
        assert_eq!(each_process(7, all, |pid| (pid != 9).then_some(())), None);
        assert_eq!(each_process(7, || None, |_| Some(())), None);
    }
}
