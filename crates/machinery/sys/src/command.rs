//! What a child does between fork and exec, where only calls that a signal's
//! handler may make are allowed: no memory, no lock. And what it inherits.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::rights::Rights;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
pub use rustix::process::Signal;
use rustix::process::{getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The kernel kills what `command` starts when the *thread* that started it ends,
/// however that happens. It gets the limit of descriptors that this process had first.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        crate::limit::restore_descriptors();
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Had the parent died before that call, no signal would ever come.
        // A parent in another PID namespace shows as none.
        if getppid().is_some_and(|now| now != parent) {
            return Err(Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: two system calls; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(prepare) };
}

/// What `command` starts has these rights. To be said before [`die_with_parent`]: with the
/// user goes the signal at the parent's death.
pub fn restrict(command: &mut Command, rights: Rights) {
    let take = move || Ok(rights.take()?);
    // SAFETY: system calls; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(take) };
}

/// Makes the process of `command` lead a session of its own, without a terminal: it can neither
/// read from nor type into ours. It leads a process group, too.
pub fn lead_session(command: &mut Command) {
    let lead = || Ok(rustix::process::setsid().map(drop)?);
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(lead) };
}

/// Makes the process of `command` inherit no descriptors but its streams and those passed by
/// [`inherit`], which must be called after this.
pub fn inherit_nothing(command: &mut Command) {
    let close = || {
        // SAFETY: no memory is used; the child's exec closes its descriptors.
        let done = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOEXEC) };
        match done {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(close) };
}

const CLOEXEC: libc::c_uint = libc::CLOSE_RANGE_CLOEXEC;

/// What `command` starts inherits `descriptor`, under its present number. No other
/// child does. The command holds it until it is dropped.
pub fn inherit(command: &mut Command, descriptor: OwnedFd) {
    let prepare = move || Ok(fcntl_setfd(&descriptor, FdFlags::empty())?);
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(prepare) };
}

/// What `command` starts runs inside `network`, a network namespace. The command
/// holds that until it is dropped.
pub fn enter_network(command: &mut Command, network: OwnedFd) {
    let enter = move || Ok(into_network(&network)?);
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(enter) };
}

/// What `command` starts runs in a cgroup from the beginning: that of which `door` is the
/// file `cgroup.procs`, open for writing. The command holds it until it is dropped.
pub fn enter_cgroup(command: &mut Command, door: OwnedFd) {
    // Zero is whoever writes it.
    let enter = move || Ok(rustix::io::write(&door, b"0").map(drop)?);
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(enter) };
}

/// This process, and what it starts from now on, ignores `signal`.
pub fn ignore(signal: Signal) {
    // SAFETY: no handler is installed, only the disposition changes.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
}

/// Moves the calling thread into a network namespace.
///
/// # Errors
/// Without CAP_SYS_ADMIN.
pub fn into_network(network: impl AsFd) -> Result<(), Errno> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
}

/// Moves the calling thread into a new network namespace.
///
/// # Errors
/// Without CAP_SYS_ADMIN, or on a kernel without such namespaces.
pub fn into_new_network() -> Result<(), Errno> {
    // SAFETY: the descriptors stay shared, which is what can go wrong.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}
