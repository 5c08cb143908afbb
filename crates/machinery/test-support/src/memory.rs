//! Memory limits for single processes, which trigger the kernel's real out-of-memory killer without
//! effects on other processes.
//!
//! The limit belongs to a control group of version 1 or 2: the version to which the machine has
//! attached its memory controller.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::PATIENCE;

/// Memory limit of a control group. Memory that a process allocated before it entered the group may
/// or may not count.
#[derive(Debug)]
pub struct MemoryLimit {
    directory: PathBuf,
    file: &'static str,
    /// True if this value created the group and must remove it.
    own: bool,
}

impl MemoryLimit {
    /// Moves process `pid` into a group of its own, without a limit yet. A guest of a session stays
    /// in the session's group; the limit then applies to the whole session.
    ///
    /// # Panics
    /// Panics without root, or if the kernel has no memory controller for groups.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc");
        let (mount, version) = hierarchy(&mounts).expect("a mounted control group for memory");
        let limit = match version {
            1 => Self::made(mount, pid, "memory.limit_in_bytes"),
            _ => {
                // A group below the root has only those controllers that the root group delegates
                // to its children.
                let passed = fs::write(mount.join("cgroup.subtree_control"), "+memory");
                passed.expect("the root group passes its memory on");
                Self::of_session(mount, pid).unwrap_or_else(|| Self::made(mount, pid, "memory.max"))
            }
        };
        // Without this, the kernel would swap memory out instead of running out of memory.
        let no_swap = [("memory.swappiness", "0"), ("memory.swap.max", "0")];
        for (file, value) in no_swap {
            let file = limit.directory.join(file);
            if file.exists() {
                let _ = fs::write(file, value);
            }
        }
        limit
    }

    fn made(mount: &Path, pid: u32, file: &'static str) -> Self {
        let directory = mount.join(format!("timeloom-test-memory-{pid}"));
        fs::create_dir(&directory).expect("a control group of our own");
        let limit = Self {
            directory,
            file,
            own: true,
        };
        fs::write(limit.directory.join("cgroup.procs"), pid.to_string()).expect("it lives");
        limit
    }

    fn of_session(mount: &Path, pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let whole = path.split('/').next()?;
        whole.starts_with("timeloom.").then(|| Self {
            directory: mount.join(whole),
            file: "memory.max",
            own: false,
        })
    }

    /// Sets the limit to `bytes`, or to the group's present usage if that is more and the kernel
    /// accepts no lower limit (version 1).
    ///
    /// # Panics
    /// Panics if the group does not exist any more.
    pub fn set(&self, bytes: u64) {
        let mut limit = bytes;
        // Retries, because the usage changes concurrently.
        for _ in 0..1000 {
            match fs::write(self.directory.join(self.file), limit.to_string()) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    let used = fs::read_to_string(self.directory.join("memory.usage_in_bytes"));
                    let used = used.expect("version 1 tells what is used");
                    limit = used.trim().parse().expect("a number");
                }
                done => return done.expect("a limit is set"),
            }
        }
        panic!("the group uses more and more: {limit} bytes");
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if !self.own {
            return;
        }
        // A killed process stays in the group until its parent has waited for it.
        let begun = Instant::now();
        while let Err(error) = fs::remove_dir(&self.directory) {
            let gives_up = begun.elapsed() > PATIENCE;
            assert!(
                !gives_up || std::thread::panicking(),
                "{}: {error}",
                self.directory.display()
            );
            if gives_up {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the mount point of the memory controller and the version (1 or 2) of its hierarchy.
fn hierarchy(mounts: &str) -> Option<(&Path, u32)> {
    let of = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let has = |option| {
                fields
                    .get(3)
                    .is_some_and(|all| all.split(',').any(|it| it == option))
            };
            (fields.get(2) == Some(&kind) && option.is_none_or(has)).then(|| Path::new(fields[1]))
        })
    };
    of("cgroup", Some("memory"))
        .map(|mount| (mount, 1))
        .or_else(|| of("cgroup2", None).map(|mount| (mount, 2)))
}
