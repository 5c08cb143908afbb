//! A guest's substitute for a timerfd: an eventfd, known by its identity.

use std::fs::{self, File};
use std::io::Read;

use crate::linux::descriptor::is_readable;

/// Resets the counter, without waiting, whatever the guest's flags are.
pub(super) fn drain(mut file: &File) {
    if is_readable(file) {
        let _ = file.read(&mut [0u8; 8]);
    }
}

/// Returns the identity of an eventfd, by a descriptor of it in a process.
pub(super) fn eventfd_id(process: &str, fd: i32) -> Option<u64> {
    identity_in(&fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?)
}

/// Returns the identity of an eventfd, from the text of /proc/PID/fdinfo/FD.
pub(super) fn identity_in(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}
