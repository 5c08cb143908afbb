//! Root of a container: namespaces whose programs see the files of a container image and none of
//! the machine's.
//!
//! The container image is never written to. An overlay in memory lies over it, which all programs
//! of the container share and which ends with the last of them (`root/build`). Each program is the
//! first process of its own PID namespace, with a `/proc` of that namespace. The namespaces have no
//! names: they cannot be found from outside, and leave nothing behind.
//!
//! The root does not remove privileges: `Rights` limits the privileges of programs, and a process
//! that keeps all capabilities can leave any such root. This module knows no image format.

mod build;

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use timeloom_sys::rooted;

use super::identity::HostNames;
use crate::error::GuestError;

/// Specification of a container's root.
pub struct RootSpec<'a> {
    /// Directory on this machine with the files of the container image.
    pub image: PathBuf,
    /// True if programs can write only to `rooms` and to writable `binds`.
    pub read_only: bool,
    /// Directories in the container that are in memory, and empty at first.
    pub rooms: Vec<PathBuf>,
    /// Files and directories of this machine that are visible in the container.
    pub binds: Vec<Bind>,
    /// Host name, and files below `/etc` that replace those of the container image. `binds` are
    /// mounted over them.
    pub names: HostNames,
    /// Network namespace of the programs. `/sys` shows its interfaces.
    pub network: BorrowedFd<'a>,
}

/// File or directory of the machine that is visible inside a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Path on the machine.
    pub source: PathBuf,
    /// Absolute path in the container. It is created if it does not exist.
    pub target: PathBuf,
    /// True if programs may write to the file or directory.
    pub writable: bool,
}

/// Root of a container. It exists as long as this value or a program in it.
#[derive(Debug)]
pub struct ContainerRoot {
    /// Mount, UTS and IPC namespaces.
    namespaces: [(LinkNameSpaceType, OwnedFd); 3],
    /// Top directory of the container.
    top: OwnedFd,
}

impl ContainerRoot {
    /// Creates the root of a container.
    ///
    /// # Errors
    /// Fails without root privileges, if the image or a bind does not exist, or if the kernel has
    /// no overlay file system.
    pub fn new(spec: &RootSpec<'_>) -> Result<Self, GuestError> {
        build::build(spec).map_err(|trouble| GuestError::System {
            doing: format!(
                "making a container of {}: {}",
                spec.image.display(),
                trouble.doing
            ),
            source: trouble.error,
        })
    }

    /// Moves the calling process into the root, with a `/proc` of the process's PID namespace.
    ///
    /// # Errors
    /// Returns the kernel's error.
    ///
    /// # Safety
    /// Call this only in a freshly forked child. (It makes only system calls.)
    pub(super) unsafe fn enter(&self) -> rustix::io::Result<()> {
        for (kind, namespace) in &self.namespaces {
            move_into_link_name_space(namespace.as_fd(), Some(*kind))?;
        }
        // SAFETY: the call shares no descriptor of this process, and nothing borrows one across it.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
        mount(c"proc", c"/proc", c"proc", HARMLESS, None::<&CStr>)?;
        // A root user may write to these files even without any capabilities.
        for shown in [
            c"/proc/sys",
            c"/proc/sysrq-trigger",
            c"/proc/irq",
            c"/proc/bus",
            c"/proc/fs",
            c"/proc/acpi",
            c"/proc/asound",
            c"/proc/scsi",
            c"/proc/dynamic_debug",
        ] {
            let flags = HARMLESS | MountFlags::BIND | MountFlags::RDONLY;
            let bound = mount_bind(shown, shown).and_then(|()| mount_remount(shown, flags, c""));
            if_there(bound)?;
        }
        for hidden in [c"/proc/kcore", c"/proc/keys", c"/proc/timer_list"] {
            if_there(mount_bind(c"/dev/null", hidden))?;
        }
        Ok(())
    }

    /// Returns the path, inside the container, of a program's file; `None` if there is no such
    /// program.
    pub(super) fn program(&self, name: &Path, directory: &Path, path: &str) -> Option<PathBuf> {
        rooted::program(&self.top, name, directory, path)
    }
}

/// Ignores the error for a missing file: not every kernel has every file.
fn if_there(done: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Mount flags that disable set-user-id bits and devices.
const NO_SURPRISES: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
/// Mount flags that disable set-user-id bits, devices and execution.
const HARMLESS: MountFlags = NO_SURPRISES.union(MountFlags::NOEXEC);
