//! A child process that cannot be left behind.
//!
//! One thread per child, its *keeper*, starts it and waits for it. That thread
//! has to live as long as the child: the kernel sends the parent-death signal
//! when the parent *thread* ends (prctl(2)), so a child started from a passing
//! thread would be killed with it.
//!
//! The child leads a session and a process group of its own. When it ends, by itself or not,
//! the whole group is killed before it is reaped: as long as the leader is a
//! zombie its number cannot be given to a stranger. What moves to another group by
//! itself (setsid) does not move to another cgroup: where the child was given one of its
//! own, all that is in it is killed as well.

use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use timeloom_sys::command::{
    die_with_parent, enter_cgroup, inherit, inherit_nothing, lead_session,
};

/// A running or ended child. Dropping it kills and reaps it.
pub(crate) struct Child {
    pid: Pid,
    cgroup: Option<PathBuf>,
    ended: Arc<Ended>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Ended {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl Child {
    /// Starts `command`, which inherits `socket` under its present number, in `cgroup`.
    pub(crate) fn start(
        mut command: Command,
        socket: UnixStream,
        cgroup: Option<PathBuf>,
    ) -> io::Result<Self> {
        command.stdin(Stdio::null());
        lead_session(&mut command);
        inherit_nothing(&mut command);
        die_with_parent(&mut command);
        if let Some(cgroup) = &cgroup {
            let door = File::options()
                .write(true)
                .open(cgroup.join("cgroup.procs"))?;
            enter_cgroup(&mut command, door.into());
        }
        inherit(&mut command, socket.into());

        let ended = Arc::new(Ended::default());
        let (theirs, their_cgroup) = (ended.clone(), cgroup.clone());
        let (tell, told) = channel();
        let keeper = thread::Builder::new()
            .name("plant-keeper".to_owned())
            .spawn(move || {
                let started = command.spawn();
                // Closes our copy of the child's socket, without which its death
                // would not show as an end of file.
                drop(command);
                match started {
                    Ok(child) => {
                        let _ = tell.send(Ok(child.id()));
                        theirs.keep(child, their_cgroup.as_deref());
                    }
                    Err(error) => {
                        let _ = tell.send(Err(error));
                    }
                }
            })?;
        let id = told
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the keeper panicked")))?;
        let pid = i32::try_from(id)
            .ok()
            .and_then(Pid::from_raw)
            .expect("a child has a number");
        Ok(Self {
            pid,
            cgroup,
            ended,
            keeper: Some(keeper),
        })
    }

    /// Kills the child's whole group and cgroup, unless it has been reaped already.
    pub(crate) fn kill(&self) {
        let status = self.ended.lock();
        if status.is_none() {
            // It cannot fail for lack of a target: the leader is not reaped.
            kill_all(self.pid, self.cgroup.as_deref());
        }
    }

    /// How it ended, waiting at most `patience` for that.
    pub(crate) fn wait(&self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        let mut status = self.ended.lock();
        while status.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            status = self
                .ended
                .changed
                .wait_timeout(status, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *status
    }

    /// The number of the process and of its group.
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Ended {
    fn lock(&self) -> MutexGuard<'_, Option<ExitStatus>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keeper's work: wait, clear the group, reap, say so.
    fn keep(&self, mut child: std::process::Child, cgroup: Option<&Path>) {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a child has a number");
        // Leaves the zombie where it is; only a signal can interrupt it.
        while let Err(rustix::io::Errno::INTR) = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        ) {}
        let mut status = self.lock();
        kill_all(pid, cgroup);
        *status = child.wait().ok();
        self.changed.notify_all();
    }
}

/// The group of a leader that is not reaped yet, and its cgroup.
fn kill_all(leader: Pid, cgroup: Option<&Path>) {
    let _ = kill_process_group(leader, Signal::KILL);
    if let Some(cgroup) = cgroup {
        // Its owner may have removed it.
        let _ = fs::write(cgroup.join("cgroup.kill"), "1");
    }
}
