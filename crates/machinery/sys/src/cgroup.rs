//! Where the control groups (version 2) are.

use std::fs;
use std::path::PathBuf;

/// Where the cgroup v2 hierarchy is mounted, if it is.
pub fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right
            .starts_with("cgroup2 ")
            .then(|| left.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// The cgroup that a process is in now.
pub fn of(pid: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount()?.join(path))
}
