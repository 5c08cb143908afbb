//! Start of a program in a session: fork, filter, exec.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use timeloom_sys::rights::Rights;

use crate::error::GuestError;
use crate::linux::descriptor::{receive_descriptor, socket_pair};
use crate::time_files::{MachineFiles, View};

use super::child::{
    Problems, STEP_DIRECTORY, STEP_EXEC, STEP_FILTER, STEP_IDENTITY, STEP_RIGHTS, STEP_ROOT,
    STEP_TSC, child,
};
use super::guest::Guest;
use super::prepare::prepare;
use super::spec::CommandSpec;
use super::vfork::vfork;

/// Settings that are common to all programs of a session.
pub(crate) struct Conditions<'a> {
    /// True if reads of the time-stamp counter trap.
    pub(crate) emulates_tsc: bool,
    /// True if programs see virtual dates of files.
    pub(crate) dates_files: bool,
    /// True if the program's host has a network card of the model.
    pub(crate) has_card: bool,
    /// View of `/proc/uptime` and `/proc/stat`; `None` for the machine's files.
    pub(crate) view: Option<View>,
    /// Callback for a child that did not become the program. It gets the child's process
    /// identifier, before the kernel can reuse it.
    pub(crate) fails: &'a dyn Fn(i32),
    /// Callback for messages to the user.
    pub(crate) warn: &'a dyn Fn(String),
}

/// Starts the program `spec`. `serve` gets the new process and the listener of its filter, in a
/// thread of its own. It must answer the listener's requests until all processes with this filter
/// have ended: the exec waits for its answer, and this thread waits for the exec.
pub(crate) fn launch(
    spec: &CommandSpec,
    how: &Conditions<'_>,
    serve: impl FnOnce(i32, OwnedFd) + Send + 'static,
) -> Result<Guest, GuestError> {
    let prepared = prepare(spec, how.emulates_tsc, how.dates_files, how.has_card)?;
    let (ours, theirs) = socket_pair()?;
    let supervisors = ours.as_raw_fd();
    let number = Arc::new(AtomicI32::new(0));
    let its = Arc::clone(&number);
    let receive = move || {
        // There is no listener if the child ended before it sent one.
        if let Some(listener) = receive_descriptor(&ours) {
            drop(ours);
            serve(its.load(Ordering::SeqCst), listener);
        }
    };
    let program = || spec.argv[0].to_string_lossy();
    std::thread::Builder::new()
        .spawn(receive)
        .map_err(GuestError::system(format!(
            "starting a thread to serve `{}`",
            program()
        )))?;

    let problems = Problems::default();
    let become_program = || -> libc::c_int {
        let view = how.view.as_ref();
        let sockets = [supervisors, theirs.as_raw_fd()];
        // SAFETY: this code runs in the child.
        unsafe { child(spec, &prepared, view, sockets, &problems) }
    };
    // SAFETY: the child only makes system calls on prepared data.
    let pidfd = unsafe { vfork(become_program, &number, spec.root.is_some()) }
        .map_err(GuestError::system(format!("forking for `{}`", program())))?;
    drop(theirs);
    let guest = Guest::child(number.load(Ordering::SeqCst), pidfd);
    if let Some((step, error)) = problems.fatal() {
        // The identifier cannot be reused until the child is reaped.
        (how.fails)(guest.pid());
        guest.wait();
        return Err(explain(spec, step, error));
    }
    if let Some(error) = problems.time_files() {
        (how.warn)(MachineFiles::Refused(error).to_string());
    }
    Ok(guest)
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
        // The kernel allows one such listener per process, which its children inherit.
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
        STEP_ROOT => GuestError::System {
            doing: format!("entering the container of `{program}`"),
            source,
        },
        STEP_IDENTITY => GuestError::System {
            doing: format!("entering the mount and UTS namespaces of the host of `{program}`"),
            source,
        },
        STEP_TSC => GuestError::Unsupported(format!(
            "this kernel cannot make reads of the time-stamp counter trap ({source}); run without `--tsc emulate`"
        )),
        _ => GuestError::System {
            doing: format!("preparing `{program}` (step {step})"),
            source,
        },
    }
}
