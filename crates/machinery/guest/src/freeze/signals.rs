//! Stopping by SIGSTOP and SIGCONT, one process at a time.
//!
//! Signals do not nest: a process that was stopped twice continues at the first SIGCONT. Therefore
//! the freezer records which hosts are stopped, and resumes a process when neither the session nor
//! its host is stopped.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use timeloom_abi::{HOST_OFFSET, PAGE_ADDRESS};

use crate::error::GuestError;
use crate::linux::pidfd::Pidfd;
use crate::linux::processes;
use crate::linux::remote::Alleged;
use crate::linux::spare::with_spare;
use crate::names::PageName;

/// Freezer that stops the processes of a session by signals.
pub(crate) struct SignalFreezer {
    /// Name of the session's clock page, which identifies its processes.
    page: PageName,
    standing: Mutex<StoppedState>,
}

/// Record of the session, hosts and processes that are stopped.
#[derive(Default)]
struct StoppedState {
    /// True if the whole session is stopped.
    session: bool,
    /// Numbers of the hosts that are held.
    hosts: BTreeSet<usize>,
    /// Processes that were stopped and must be resumed. Each has a pidfd, since the kernel may
    /// reuse process identifiers.
    stopped: Vec<(i32, Pidfd)>,
}

impl StoppedState {
    fn concerns(&self, pid: i32) -> bool {
        self.session || (!self.hosts.is_empty() && self.is_on_held(pid))
    }

    fn is_on_held(&self, pid: i32) -> bool {
        host_of(pid).is_some_and(|host| self.hosts.contains(&host))
    }

    /// Stops a process, if it still belongs to the session.
    fn stop(&mut self, pid: i32, page: &PageName) -> Result<(), GuestError> {
        let held = with_spare(|| Pidfd::of_process(pid));
        let held = match held {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
            other => other.map_err(GuestError::system(format!(
                "opening a pidfd of process {pid}"
            )))?,
        };
        if !page.is_page_of(pid) {
            return Ok(());
        }
        send(pid, &held, libc::SIGSTOP)?;
        if !self.has_stopped(pid) {
            self.stopped.push((pid, held));
        }
        Ok(())
    }

    fn has_stopped(&self, pid: i32) -> bool {
        self.stopped.iter().any(|(other, _)| *other == pid)
    }

    /// Sends SIGSTOP again to a process that was already stopped.
    fn stop_again(&self, pid: i32) {
        if let Some((_, held)) = self.stopped.iter().find(|(other, _)| *other == pid) {
            let _ = held.send(libc::SIGSTOP);
        }
    }

    /// Resumes the processes that need not be stopped any more.
    fn go_on(&mut self) {
        for (pid, held) in std::mem::take(&mut self.stopped) {
            if self.concerns(pid) {
                self.stopped.push((pid, held));
            } else {
                let _ = held.send(libc::SIGCONT);
            }
        }
    }
}

/// Sends a signal to a process that may have ended.
fn send(pid: i32, held: &Pidfd, signal: i32) -> Result<(), GuestError> {
    match held.send(signal) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
            Err(GuestError::system(format!("stopping process {pid}"))(error))
        }
        _ => Ok(()),
    }
}

impl SignalFreezer {
    pub(super) fn new(page: &PageName) -> Self {
        Self {
            page: page.clone(),
            standing: Mutex::default(),
        }
    }

    pub(super) fn processes(&self) -> Vec<i32> {
        self.page.mapped_by()
    }

    pub(super) fn list(&self) -> Result<Vec<i32>, GuestError> {
        let all = self.page.try_mapped_by();
        all.map_err(GuestError::system("looking for the session's processes"))
    }

    pub(super) fn list_with_hosts(&self) -> Result<Vec<(usize, i32)>, GuestError> {
        let with_host = |pid| Some((host_of(pid)?, pid));
        let mut all: Vec<_> = self.list()?.into_iter().filter_map(with_host).collect();
        all.sort_unstable();
        Ok(all)
    }

    pub(super) fn processes_of(&self, host: usize) -> Vec<i32> {
        let mut all = self.processes();
        all.retain(|&pid| host_of(pid) == Some(host));
        all
    }

    pub(super) fn processes_not_held(&self) -> Result<Vec<i32>, GuestError> {
        let mut all = self.list()?;
        let standing = self.lock();
        if !standing.hosts.is_empty() {
            all.retain(|&pid| !standing.is_on_held(pid));
        }
        Ok(all)
    }

    pub(super) fn adopt(&self, pid: i32) -> Result<(), GuestError> {
        let mut standing = self.lock();
        if standing.concerns(pid) {
            standing.stop(pid, &self.page)?;
        }
        Ok(())
    }

    pub(super) fn let_go(&self, pid: i32) {
        let mut standing = self.lock();
        let index = standing.stopped.iter().position(|(other, _)| *other == pid);
        if let Some(index) = index {
            let (_, held) = standing.stopped.swap_remove(index);
            let _ = held.send(libc::SIGCONT);
        }
    }

    pub(super) fn freeze(&self, patience: Duration) -> Result<(), GuestError> {
        let mut standing = self.lock();
        standing.session = true;
        self.stop_all(&mut standing, patience)
    }

    pub(super) fn thaw(&self) {
        let mut standing = self.lock();
        standing.session = false;
        standing.go_on();
    }

    pub(super) fn freeze_host(&self, host: usize, patience: Duration) -> Result<(), GuestError> {
        let mut standing = self.lock();
        standing.hosts.insert(host);
        self.stop_all(&mut standing, patience)
    }

    pub(super) fn thaw_host(&self, host: usize) {
        let mut standing = self.lock();
        standing.hosts.remove(&host);
        standing.go_on();
    }

    pub(super) fn kill_all(&self) {
        let mut standing = self.lock();
        for pid in self.processes() {
            processes::kill_if(pid, |pid| self.page.is_page_of(pid));
        }
        *standing = StoppedState::default();
    }

    /// Stops all processes of the session, or of held hosts, and waits for at most `patience` until
    /// they are stopped.
    fn stop_all(&self, standing: &mut StoppedState, patience: Duration) -> Result<(), GuestError> {
        let begun = Instant::now();
        // The kernel may reuse the identifiers of ended processes.
        standing.stopped.retain(|(_, held)| !held.has_ended());
        // Repeat this until no new process appears: one may fork meanwhile.
        loop {
            let mut fresh = self.list()?;
            fresh.retain(|pid| !standing.has_stopped(*pid) && standing.concerns(*pid));
            if fresh.is_empty() {
                return Ok(());
            }
            for &pid in &fresh {
                standing.stop(pid, &self.page)?;
            }
            for &pid in &fresh {
                let mut asked = Instant::now();
                while !is_stopped(pid)? {
                    // The signal is sent again. The first one may have gone to a thread that the
                    // supervisor follows through an exec, where it stops no other thread.
                    if asked.elapsed() > ASK_AGAIN {
                        standing.stop_again(pid);
                        asked = Instant::now();
                    }
                    if begun.elapsed() > patience {
                        return Err(GuestError::Unsupported(format!(
                            "process {pid} ({}) could not be stopped within {}",
                            processes::name(pid),
                            timeloom_time::Duration::from(patience)
                        )));
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, StoppedState> {
        self.standing.lock()
    }
}

/// Returns the number of a process's host, read from its clock page.
fn host_of(pid: i32) -> Option<usize> {
    let number = Alleged::<u32>::at(PAGE_ADDRESS + HOST_OFFSET as u64);
    number.read(pid).map(|number| number as usize)
}

/// Returns true if every thread of the process is stopped, by a signal or by a tracer, or has
/// ended.
///
/// A thread that waits for its `vfork` child receives no signal until that child executes a program
/// or ends. The child belongs to the session and is stopped, so the thread does not run either.
fn is_stopped(pid: i32) -> Result<bool, GuestError> {
    let threads = processes::try_threads(pid);
    let looking = format!("looking at the threads of process {pid}");
    let mut threads = threads.map_err(GuestError::system(looking))?.into_iter();
    Ok(threads.all(|thread| match processes::state(thread) {
        None | Some('T' | 't' | 'Z' | 'X') => true,
        Some('D') => processes::waits_for_vfork_child(thread),
        Some(_) => false,
    }))
}

/// Wall time after which SIGSTOP is sent again to a process that does not stop.
const ASK_AGAIN: Duration = Duration::from_millis(2);
