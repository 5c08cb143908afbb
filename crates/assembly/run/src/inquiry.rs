//! Inquiries: short commands that are run for their exit status before a run has any cgroup, such
//! as an interpreter that is asked for a package.
//!
//! A command of an inquiry may belong to another user, so it is isolated like a program or plant:
//! it has the rights of that user, a session of its own without a terminal, and no descriptors
//! except its standard streams. It ends with the thread that started it, at a deadline, and when
//! the run is interrupted.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use timeloom_sys::command::{die_with_parent, inherit_nothing, lead_session, restrict};
use timeloom_sys::rights::Rights;

/// Conditions under which the answer to an inquiry is no longer awaited.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// Maximum duration of the command.
    pub(crate) patience: Duration,
    /// True to end the command at once.
    pub(crate) interrupted: &'a AtomicBool,
}

/// Reason why an inquiry has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("{0}")]
    Start(io::Error),
    #[error("observing the process: {0}")]
    Observe(#[from] io::Error),
    #[error("no answer within {} s (does a start-up file of it wait?)", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("interrupted before it answered")]
    Interrupted,
}

/// Runs `command` with `rights`, or with those of this process, and returns its exit status. Its
/// standard streams are `/dev/null`. When it has ended, its remaining children are killed, except
/// those that left its process group.
///
/// # Errors
/// Returns an error if the command cannot be started or observed, or exceeds its limits. In each
/// case no process of its group is left.
pub(crate) fn ask(
    command: &mut Command,
    rights: Option<Rights>,
    limits: Limits<'_>,
) -> Result<ExitStatus, NoAnswer> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(rights) = rights {
        restrict(command, rights);
    }
    lead_session(command);
    inherit_nothing(command);
    die_with_parent(command);
    let deadline = Instant::now() + limits.patience;
    let mut running = RunningInquiry(command.spawn().map_err(NoAnswer::Start)?);
    let ended = pidfd_open(running.pid(), PidfdFlags::empty()).map_err(io::Error::from)?;
    loop {
        if limits.interrupted.load(Ordering::SeqCst) {
            return Err(NoAnswer::Interrupted);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NoAnswer::TimedOut(limits.patience));
        }
        let slice = Timespec::try_from(left.min(LOOK_EVERY)).expect("a fraction of a second");
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&slice)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(running.end()?),
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

/// Command that was started. Dropping the value kills its process group and reaps it.
struct RunningInquiry(Child);

impl RunningInquiry {
    fn pid(&self) -> Pid {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        pid.expect("a child has a number")
    }

    /// Kills the command's process group, and returns the exit status of the command.
    fn end(&mut self) -> io::Result<ExitStatus> {
        // Before the command is reaped, no other process can get its number. A command that has
        // ended keeps its exit status.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        self.0.wait()
    }
}

impl Drop for RunningInquiry {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.end();
        }
    }
}

/// Interval at which an interruption is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn limits(patience_ms: u64, interrupted: &AtomicBool) -> Limits<'_> {
        let patience = Duration::from_millis(patience_ms);
        Limits {
            patience,
            interrupted,
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Returns true if the process whose number is in `file` has ended. A zombie has ended.
    fn has_ended(file: &std::path::Path) -> bool {
        let pid = fs::read_to_string(file).expect("the script wrote it");
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    }

    #[test]
    fn the_exit_status_is_returned_and_no_process_of_the_group_is_left() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; exit 3", file.display());
        let status = ask(&mut shell(&script), None, limits(60_000, &NEVER)).expect("it answers");
        assert_eq!(status.code(), Some(3));
        while !has_ended(&file) {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn a_command_without_an_answer_is_killed_at_the_deadline_or_at_an_interruption() {
        let began = Instant::now();
        let refused = ask(&mut shell("sleep 1000"), None, limits(200, &NEVER));
        let refused = refused.expect_err("it does not answer");
        assert!(matches!(refused, NoAnswer::TimedOut(_)), "{refused}");
        assert!(refused.to_string().contains("within 0.2 s"), "{refused}");

        let interrupted = AtomicBool::new(false);
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(LOOK_EVERY * 2);
                interrupted.store(true, Ordering::SeqCst);
            });
            let patience = limits(600_000, &interrupted);
            ask(&mut shell("sleep 1000"), None, patience).expect_err("it does not answer")
        });
        assert!(matches!(refused, NoAnswer::Interrupted), "{refused}");
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_command_that_cannot_be_started_differs_from_one_without_an_answer() {
        let mut command = Command::new("/nowhere/timeloom-has-no-such-program");
        let refused = ask(&mut command, None, limits(60_000, &NEVER)).expect_err("not there");
        assert!(matches!(refused, NoAnswer::Start(_)), "{refused}");
    }
}
