//! Preparation of a child process between fork and exec, and descriptors that a child inherits.
//! Between fork and exec only async-signal-safe calls are allowed (no allocation, no locks).

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::rights::Rights;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
pub use rustix::process::Signal;
use rustix::process::{getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Makes the kernel kill the child of `command` when the *thread* that started the child ends, for
/// any reason. Also gives the child the descriptor limit that this process was started with.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        crate::limit::restore_descriptors();
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the call above, the kernel would never send the signal. A
        // parent in another PID namespace is reported as none.
        if getppid().is_some_and(|now| now != parent) {
            return Err(Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: makes two system calls; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(prepare) };
}

/// Restricts the child of `command` to `rights`. Must be called before [`die_with_parent`]: a
/// change of user clears the parent-death signal.
pub fn restrict(command: &mut Command, rights: Rights) {
    let take = move || Ok(rights.take()?);
    // SAFETY: system calls; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(take) };
}

/// Makes the child of `command` the leader of a new session without a terminal: the child can
/// neither read from our terminal nor insert input into it. It also leads a process group.
pub fn lead_session(command: &mut Command) {
    let lead = || Ok(rustix::process::setsid().map(drop)?);
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(lead) };
}

/// Makes the child of `command` inherit no descriptors except its standard streams and those passed
/// to [`inherit`]. Calls of [`inherit`] must come after this one.
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

/// Makes the child of `command` inherit `descriptor`, under its present number. No other child
/// inherits it. `command` owns the descriptor and closes it when dropped.
pub fn inherit(command: &mut Command, descriptor: OwnedFd) {
    let prepare = move || Ok(fcntl_setfd(&descriptor, FdFlags::empty())?);
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the child of `command` enter the network namespace `network` before it executes its
/// program. `command` owns the descriptor and closes it when dropped.
pub fn enter_network(command: &mut Command, network: OwnedFd) {
    let enter = move || Ok(into_network(&network)?);
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(enter) };
}

/// Runs the child of `command` in a control group from its first instruction. `door` is the file
/// `cgroup.procs` of that group, open for writing. `command` owns it and closes it when dropped.
pub fn enter_cgroup(command: &mut Command, door: OwnedFd) {
    // Writing zero moves the writing process itself.
    let enter = move || Ok(rustix::io::write(&door, b"0").map(drop)?);
    // SAFETY: one system call; an `io::Error` from an errno is a plain number.
    unsafe { command.pre_exec(enter) };
}

/// Makes this process ignore `signal`. Children started from now on inherit this.
pub fn ignore(signal: Signal) {
    // SAFETY: no handler is installed, only the disposition changes.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
}

/// Moves the calling thread into a network namespace.
///
/// # Errors
/// Fails without CAP_SYS_ADMIN.
pub fn into_network(network: impl AsFd) -> Result<(), Errno> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
}

/// Moves the calling thread into a new network namespace.
///
/// # Errors
/// Fails without CAP_SYS_ADMIN, or on a kernel without network namespaces.
pub fn into_new_network() -> Result<(), Errno> {
    // SAFETY: the hazard of this call is unsharing descriptors; here they stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}
