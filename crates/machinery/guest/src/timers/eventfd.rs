//! What a guest has for a timerfd: an eventfd, known by its identity.

use std::fs::{self, File};
use std::io::Read;

use crate::linux::descriptor::is_readable;

/// Reads the counter away, without waiting, whatever the guest's flags are.
pub(super) fn drain(mut file: &File) {
    if is_readable(file) {
        let _ = file.read(&mut [0u8; 8]);
    }
}

/// The identity of an eventfd, by a descriptor of it in a process.
pub(super) fn eventfd_id(process: &str, fd: i32) -> Option<u64> {
    identity_in(&fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?)
}

/// The identity of an eventfd, in what /proc/PID/fdinfo/FD says of it.
pub(super) fn identity_in(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}
