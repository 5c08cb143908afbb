//! A child process that cannot be left behind.
//!
//! One thread per child, its *keeper*, starts it and waits for it. That thread
//! has to live as long as the child: the kernel sends the parent-death signal
//! when the parent *thread* ends (prctl(2)), so a child started from a passing
//! thread would be killed with it.
//!
//! The child leads a process group of its own. When it ends, by itself or not,
//! the whole group is killed before it is reaped: as long as the leader is a
//! zombie its number cannot be given to a stranger. What moves to another
//! group by itself (setsid) escapes this; the run's control group is there for
//! that.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use timeloom_sys::command::{die_with_parent, inherit};

/// A running or ended child. Dropping it kills and reaps it.
pub(crate) struct Child {
    pid: Pid,
    ended: Arc<Ended>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Ended {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl Child {
    /// Starts `command`, which inherits `socket` under its present number.
    pub(crate) fn start(mut command: Command, socket: UnixStream) -> io::Result<Self> {
        command.stdin(Stdio::null()).process_group(0);
        die_with_parent(&mut command);
        inherit(&mut command, socket.into());

        let ended = Arc::new(Ended::default());
        let theirs = ended.clone();
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
                        theirs.keep(child);
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
            ended,
            keeper: Some(keeper),
        })
    }

    /// Kills the child's whole group, unless it has been reaped already.
    pub(crate) fn kill(&self) {
        let status = self.ended.lock();
        if status.is_none() {
            // It cannot fail for lack of a target: the leader is not reaped.
            let _ = kill_process_group(self.pid, Signal::KILL);
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
    fn keep(&self, mut child: std::process::Child) {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a child has a number");
        // Leaves the zombie where it is; only a signal can interrupt it.
        while let Err(rustix::io::Errno::INTR) = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        ) {}
        let mut status = self.lock();
        let _ = kill_process_group(pid, Signal::KILL);
        *status = child.wait().ok();
        self.changed.notify_all();
    }
}

/// The last lines of a log, for error messages. A log that cannot be read has
/// none: the error at hand is worth more than that one.
pub(crate) fn log_tail(log: &File) -> Vec<String> {
    // Where the plant writes must stay where it is.
    let read = || -> io::Result<Vec<u8>> {
        let from = log.metadata()?.len().saturating_sub(TAIL_BYTES);
        let mut bytes = vec![0; TAIL_BYTES as usize];
        let length = log.read_at(&mut bytes, from)?;
        bytes.truncate(length);
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..]
        .iter()
        .map(|line| line.to_string())
        .collect()
}

const TAIL_BYTES: u64 = 4096;
const TAIL_LINES: usize = 10;
