//! Child process that cannot outlive its handle.
//!
//! Each child has a thread, its *keeper*, which starts the child and waits for it. The keeper must
//! live as long as the child: the kernel sends the parent-death signal when the parent *thread*
//! ends (prctl(2)), so a child of a short-lived thread would be killed early.
//!
//! The child leads its own session and process group. When it ends, for any reason, the whole group
//! is killed before the child is reaped. (As long as the leader is a zombie, its process ID cannot
//! be reused.) A descendant may leave the group by setsid, but not the cgroup. If the child was
//! given a cgroup of its own, every process in that cgroup is therefore killed as well.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use timeloom_sys::command::{
    die_with_parent, enter_cgroup, inherit, inherit_nothing, lead_session,
};

/// A running or ended child. Dropping the handle kills and reaps the child.
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
    /// Starts `command` in `cgroup`. The child inherits `socket` under the same descriptor number.
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
                // Closes this process's copy of the child's socket. Otherwise the socket would not
                // report an end of file when the child dies.
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

    /// Kills the child's whole process group and cgroup, unless the child has already been reaped.
    pub(crate) fn kill(&self) {
        let status = self.ended.lock();
        if status.is_none() {
            // The target still exists, because the leader has not been reaped.
            kill_all(self.pid, self.cgroup.as_deref());
        }
    }

    /// Waits for at most `patience` for the child to end. Returns its exit status, or `None` if it
    /// has not ended.
    pub(crate) fn wait(&self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        let mut status = self.ended.lock();
        while status.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            self.ended.changed.wait_for(&mut status, left);
        }
        *status
    }

    /// Returns the process ID of the child, which is also that of its group.
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
        self.status.lock()
    }

    /// Main function of the keeper: waits for the child, kills its group, reaps it and wakes
    /// waiters.
    fn keep(&self, mut child: std::process::Child, cgroup: Option<&Path>) {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a child has a number");
        // Waits without reaping the child. Only a signal can interrupt the call.
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

/// Kills the process group of a leader that has not been reaped, and every process in its cgroup.
fn kill_all(leader: Pid, cgroup: Option<&Path>) {
    let _ = kill_process_group(leader, Signal::KILL);
    if let Some(cgroup) = cgroup {
        // The owner may have removed the cgroup.
        let _ = fs::write(cgroup.join("cgroup.kill"), "1");
    }
}
