//! What a guest has for a timerfd: an eventfd, known by its identity.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;

/// Reads the counter away, without waiting, whatever the guest's flags are.
pub(super) fn drain(mut file: &File) {
    if is_readable(file) {
        let _ = file.read(&mut [0u8; 8]);
    }
}

/// Whether expirations are unread.
pub(super) fn is_readable(file: &File) -> bool {
    let mut ready = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, ours.
    unsafe { libc::poll(&raw mut ready, 1, 0) == 1 }
}

/// The identity of an eventfd, by a descriptor of it in a process.
pub(super) fn eventfd_id(process: &str, fd: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}
