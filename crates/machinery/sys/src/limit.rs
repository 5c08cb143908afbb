//! Descriptor limit of this process (RLIMIT_NOFILE).
//!
//! Programs may rely on the usual limit (`select` supports at most 1,024 descriptors), so child
//! processes get back the limit that this process was started with.

use std::io;
use std::sync::OnceLock;

/// Limit that this process was started with. Stored when the limit is raised.
static FIRST: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limit to the maximum that this user may set, and returns the new limit.
///
/// # Errors
/// Fails if the kernel refuses; the limit is then unchanged.
pub fn raise_descriptors() -> io::Result<u64> {
    let mut limit = now()?;
    FIRST.get_or_init(|| limit);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the call only reads `limit`.
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

/// Returns the highest number of open descriptors to which this process may set its limit.
///
/// # Errors
/// Never fails on Linux.
pub fn most_descriptors() -> io::Result<u64> {
    now().map(|limit| limit.rlim_max)
}

/// Returns the maximum number of threads and processes of this user. The kernel does not enforce
/// this limit for root.
///
/// # Errors
/// Never fails on Linux.
pub fn tasks_of_user() -> io::Result<u64> {
    if rustix::process::geteuid().is_root() {
        return Ok(u64::MAX);
    }
    of(libc::RLIMIT_NPROC).map(|limit| limit.rlim_cur)
}

/// Restores the limit that this process was started with. A child calls this between fork and exec:
/// the function makes one system call, and allocates nothing.
pub fn restore_descriptors() {
    if let Some(first) = FIRST.get() {
        // SAFETY: the call only reads `first`. The limit is always lowered, which cannot be
        // refused.
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
    // SAFETY: the call only writes `limit`.
    crate::option::done(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    Ok(limit)
}
