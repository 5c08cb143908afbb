//! Processes that have timers.
//!
//! The kernel may reuse the identifier of an ended process for any other process, and the
//! supervisor sends signals as root. So each owner is referenced by a descriptor and has a unique
//! number, and when it ends it is removed with all its timers.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::Arc;

use timeloom_sys::epoll::Epoll;

use super::Key;
use crate::error::GuestError;
use crate::linux::pidfd::Pidfd;

/// Process that has timers, or is about to.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Identifier of the process, valid while it lives.
    pub(super) pid: i32,
    pub(super) id: OwnerId,
    pub(super) process: Pidfd,
}

impl Owner {
    /// Returns the key of a POSIX timer of this process.
    pub(crate) fn posix(&self, id: i32) -> Key {
        Key::Posix { owner: self.id, id }
    }

    /// Returns the key of the interval timer of this process.
    pub(crate) fn interval(&self) -> Key {
        Key::Interval { owner: self.id }
    }
}

/// Unique number of an owner, which is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerId(u64);

/// Table of all owners of timers.
pub(super) struct Owners {
    known: Mutex<Known>,
    /// Reports owners that have ended, and [`STOP`].
    ends: Epoll,
    stop: PipeWriter,
    _stopped: PipeReader,
}

#[derive(Default)]
struct Known {
    owners: BTreeMap<OwnerId, Arc<Owner>>,
    /// Present or last owner with each process identifier.
    by_pid: BTreeMap<i32, OwnerId>,
    next: u64,
}

impl Known {
    fn find(&self, pid: i32) -> Option<Arc<Owner>> {
        let owner = self.owners.get(self.by_pid.get(&pid)?)?;
        (!owner.process.has_ended()).then(|| Arc::clone(owner))
    }
}

impl Owners {
    /// Creates an empty table.
    ///
    /// # Errors
    /// Fails if this process may open no more files.
    pub(super) fn new() -> Result<Self, GuestError> {
        let (stopped, stop) = io::pipe().map_err(GuestError::system("making a pipe"))?;
        let ends = Epoll::new(AT_ONCE)
            .and_then(|ends| ends.add(&stopped, STOP).map(|()| ends))
            .map_err(GuestError::system("making an epoll set"))?;
        Ok(Self {
            known: Mutex::default(),
            ends,
            stop,
            _stopped: stopped,
        })
    }

    /// Returns the process that has this identifier now, if it is an owner.
    pub(super) fn find(&self, pid: i32) -> Option<Arc<Owner>> {
        self.lock().find(pid)
    }

    /// Makes the process that has this identifier now an owner.
    ///
    /// # Errors
    /// Fails if there is no such process, or if this process may open no more files.
    pub(super) fn claim(&self, pid: i32) -> io::Result<Arc<Owner>> {
        let mut known = self.lock();
        if let Some(owner) = known.find(pid) {
            return Ok(owner);
        }
        let process = Pidfd::of_process(pid)?;
        let id = OwnerId(known.next);
        self.ends.add(&process, id.0)?;
        known.next += 1;
        let owner = Arc::new(Owner { pid, id, process });
        known.owners.insert(id, Arc::clone(&owner));
        // A previous owner with this identifier has ended. It is removed when its end is reported.
        known.by_pid.insert(pid, id);
        Ok(owner)
    }

    /// Calls `ended` for each owner that ends, until [`Self::close`].
    pub(super) fn serve(&self, mut ended: impl FnMut(OwnerId)) -> io::Result<()> {
        let mut ends = self.ends.share(AT_ONCE)?;
        loop {
            let numbers: Vec<u64> = ends.wait(None)?.collect();
            for number in numbers {
                if number == STOP {
                    return Ok(());
                }
                self.forget(OwnerId(number));
                ended(OwnerId(number));
            }
        }
    }

    pub(super) fn close(&self) {
        let _ = { &self.stop }.write_all(&[0]);
    }

    fn forget(&self, id: OwnerId) {
        let mut known = self.lock();
        let Some(owner) = known.owners.remove(&id) else {
            return;
        };
        // The descriptor may still be referenced elsewhere, so that its end would be reported
        // repeatedly.
        let _ = self.ends.remove(&owner.process);
        if known.by_pid.get(&owner.pid) == Some(&id) {
            known.by_pid.remove(&owner.pid);
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let known = self.lock();
        known.owners.len().max(known.by_pid.len())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

/// Maximum number of ends that one wait reports.
const AT_ONCE: usize = 32;
const STOP: u64 = u64::MAX;
