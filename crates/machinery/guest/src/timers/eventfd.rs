//! Eventfd that a guest gets in place of a timerfd, and its identity.

use std::fs::{self, File};
use std::io::Read;

use crate::linux::descriptor::is_readable;

/// Resets the counter. Does not block, whatever flags the guest has set.
pub(super) fn drain(mut file: &File) {
    if is_readable(file) {
        let _ = file.read(&mut [0u8; 8]);
    }
}

/// Returns the identity of the eventfd that is open under a descriptor of a process; `None` if it
/// is not an eventfd.
pub(super) fn eventfd_id(process: &str, fd: i32) -> Option<u64> {
    identity_in(&fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?)
}

/// Returns the identity of an eventfd, from the text of /proc/PID/fdinfo/FD.
pub(super) fn identity_in(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}
