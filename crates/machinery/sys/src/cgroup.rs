//! Paths of control groups (version 2).

use std::fs;
use std::path::PathBuf;

/// Returns the mount point of the cgroup v2 hierarchy, or `None` if it is not mounted.
pub fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right
            .starts_with("cgroup2 ")
            .then(|| left.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// Returns the path of the control group that the process is in, or `None` if it is unknown.
pub fn of(pid: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount()?.join(path))
}
