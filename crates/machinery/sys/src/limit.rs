//! Descriptor limit of this process.
//!
//! Programs may expect the usual limit (`select` supports at most 1,024), so child processes get
//! back the limit that this process was started with.

use std::io;
use std::sync::OnceLock;

/// Limit that this process was started with; set once the limit is raised.
static FIRST: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limit as far as this user may, and returns the new limit.
///
/// # Errors
/// Fails if the kernel refuses; the limit is then unchanged.
pub fn raise_descriptors() -> io::Result<u64> {
    let mut limit = now()?;
    FIRST.get_or_init(|| limit);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: reads `limit`.
    crate::option::done(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

/// Returns the number of descriptors that this process may have open.
///
/// # Errors
/// Never fails on Linux.
pub fn descriptors() -> io::Result<u64> {
    now().map(|limit| limit.rlim_cur)
}

/// Returns the highest limit that this process may set.
///
/// # Errors
/// Never fails on Linux.
pub fn most_descriptors() -> io::Result<u64> {
    now().map(|limit| limit.rlim_max)
}

/// Returns the maximum number of threads and processes of this user; the kernel does not enforce it
/// for root.
///
/// # Errors
/// Never fails on Linux.
pub fn tasks_of_user() -> io::Result<u64> {
    if rustix::process::geteuid().is_root() {
        return Ok(u64::MAX);
    }
    of(libc::RLIMIT_NPROC).map(|limit| limit.rlim_cur)
}

/// Restores the limit that this process was started with; for a child between fork and exec. Makes
/// one system call, and allocates nothing.
pub fn restore_descriptors() {
    if let Some(first) = FIRST.get() {
        // SAFETY: reads `first`. The limit is always lowered, which cannot be refused.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, first) };
    }
}

fn now() -> io::Result<libc::rlimit> {
    of(libc::RLIMIT_NOFILE)
}

fn of(resource: libc::__rlimit_resource_t) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes `limit`.
    crate::option::done(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    Ok(limit)
}
