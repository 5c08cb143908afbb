//! How many descriptors this process may have open.
//!
//! Programs may expect the usual limit (`select` knows no more than 1,024), so what is
//! started gets back the limit that this process was started with.

use std::io;
use std::sync::OnceLock;

/// The limit that this process was started with, once it was raised.
static FIRST: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limit as far as this user may, and says how many descriptors that are.
///
/// # Errors
/// When the kernel refuses; it stays as it was then.
pub fn raise_descriptors() -> io::Result<u64> {
    let mut limit = now()?;
    FIRST.get_or_init(|| limit);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: reads `limit`.
    crate::option::done(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

/// How many descriptors this process may have open.
///
/// # Errors
/// Never, on Linux.
pub fn descriptors() -> io::Result<u64> {
    now().map(|limit| limit.rlim_cur)
}

/// How many it could have, were the limit raised.
///
/// # Errors
/// Never, on Linux.
pub fn most_descriptors() -> io::Result<u64> {
    now().map(|limit| limit.rlim_max)
}

/// How many threads and processes this user may have; the kernel does not hold root to
/// that.
///
/// # Errors
/// Never, on Linux.
pub fn tasks_of_user() -> io::Result<u64> {
    if rustix::process::geteuid().is_root() {
        return Ok(u64::MAX);
    }
    of(libc::RLIMIT_NPROC).map(|limit| limit.rlim_cur)
}

/// To be called in a child between fork and exec: it gets the limit that this process was
/// started with. Makes one system call, and no memory.
pub fn restore_descriptors() {
    if let Some(first) = FIRST.get() {
        // SAFETY: reads `first`. A limit is always lowered, which cannot be refused.
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
