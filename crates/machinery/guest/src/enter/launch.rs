//! Starting a program under the virtual clock: fork, filter, exec.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use timeloom_sys::rights::Rights;

use crate::error::{GuestError, check};
use crate::linux::descriptor::{receive_descriptor, socket_pair};
use crate::time_files::{MachineFiles, View};

use super::child::{
    STEP_DIRECTORY, STEP_EXEC, STEP_FILTER, STEP_RIGHTS, STEP_TIME_FILES, STEP_TSC, child,
};
use super::guest::Guest;
use super::prepare::prepare;
use super::spec::CommandSpec;

/// What programs of a session have in common.
pub(crate) struct Conditions<'a> {
    /// Whether the time-stamp counter is to trap.
    pub(crate) emulates_tsc: bool,
    /// The files that tell time, if they are not the machine's.
    pub(crate) view: Option<View>,
    /// Called with messages for the user.
    pub(crate) warn: &'a dyn Fn(String),
}

/// Starts `spec`. `on_listener` is given the new process and the listener of
/// its filter, and must begin to serve it at once: the exec waits for its
/// answer.
pub(crate) fn launch(
    spec: &CommandSpec,
    how: &Conditions<'_>,
    on_listener: impl FnOnce(i32, OwnedFd),
) -> Result<Guest, GuestError> {
    let prepared = prepare(spec, how.emulates_tsc)?;
    let (ours, theirs) = socket_pair()?;
    let (mut failure, failure_theirs) = pipe()?;

    // SAFETY: the child only makes system calls on what was prepared.
    let pid = check(unsafe { libc::fork() }.into(), "forking")? as i32;
    if pid == 0 {
        // SAFETY: we are the child.
        unsafe {
            child(
                spec,
                &prepared,
                how.view.as_ref(),
                ours.as_raw_fd(),
                theirs.as_raw_fd(),
                failure_theirs.as_raw_fd(),
            )
        };
    }
    drop((theirs, failure_theirs));
    let guest = Guest::child(pid)?;
    if let Some(listener) = receive_descriptor(ours.as_raw_fd()) {
        on_listener(pid, listener);
    }
    loop {
        let mut message = [0u8; 8];
        if let Ok(0) = failure.read(&mut message) {
            return Ok(guest); // closed by the exec
        }
        let [step, errno] =
            [&message[..4], &message[4..]].map(|b| i32::from_ne_bytes(b.try_into().expect("4")));
        let error = io::Error::from_raw_os_error(errno);
        if step != STEP_TIME_FILES {
            guest.wait();
            return Err(explain(spec, step, error));
        }
        (how.warn)(MachineFiles::Refused(error).to_string());
    }
}

fn explain(spec: &CommandSpec, step: i32, source: io::Error) -> GuestError {
    let program = spec.argv[0].to_string_lossy().into_owned();
    let account = spec.rights.as_ref().and_then(Rights::account);
    match step {
        STEP_EXEC => match account {
            Some(account) if source.kind() == io::ErrorKind::PermissionDenied => {
                GuestError::Usage(account.may_not_execute(&program))
            }
            _ => GuestError::NoProgram { program, source },
        },
        STEP_DIRECTORY => GuestError::System {
            doing: format!(
                "entering the working directory of `{program}`, {}",
                spec.directory
                    .as_deref()
                    .unwrap_or(Path::new("."))
                    .display()
            ),
            source,
        },
        // The kernel allows one such listener to a process, and its children have it.
        STEP_FILTER if source.raw_os_error() == Some(libc::EBUSY) => GuestError::Usage(
            "this runs in a session already, and there is none inside another; \
             change the clock of that one (`timeloom ps`, `dilate`, `pause`)"
                .to_owned(),
        ),
        STEP_FILTER => GuestError::Unsupported(format!(
            "this kernel refused the seccomp filter ({source}); Linux 5.19 or later is needed"
        )),
        STEP_RIGHTS => GuestError::Usage(format!(
            "`{program}` cannot be started as another user or with these capabilities ({source}); \
             that needs root"
        )),
        STEP_TSC => GuestError::Unsupported(format!(
            "this kernel cannot make reads of the time-stamp counter trap ({source}); run without `--tsc emulate`"
        )),
        _ => GuestError::System {
            doing: format!("preparing `{program}` (step {step})"),
            source,
        },
    }
}

fn pipe() -> Result<(std::fs::File, OwnedFd), GuestError> {
    let mut fds = [0; 2];
    check(
        // SAFETY: writes two descriptors.
        unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into(),
        "making a pipe",
    )?;
    // SAFETY: just created and owned by nobody else.
    Ok(unsafe {
        (
            std::fs::File::from_raw_fd(fds[0]),
            OwnedFd::from_raw_fd(fds[1]),
        )
    })
}
