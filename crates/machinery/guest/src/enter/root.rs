//! The root of a container: namespaces whose programs see an image's files and none of the
//! machine's.
//!
//! The image is never written to: an overlay in memory lies over it, which all programs of
//! one container share and which ends with the last of them (`root/build`). Each program is
//! the first process of process numbers of its own, with a `/proc` of those. The namespaces
//! have no name: nobody outside finds them, and nothing is left behind.
//!
//! It takes no rights away: what programs may do is `Rights`' business, and who keeps all
//! capabilities leaves any such root. It knows no image format.

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

/// What the root of a container is made of.
pub struct RootSpec<'a> {
    /// The image: a directory of this machine.
    pub image: PathBuf,
    /// Whether programs can write only to `rooms` and what they are bound.
    pub read_only: bool,
    /// Directories of the container that are memory, empty at first.
    pub rooms: Vec<PathBuf>,
    /// Files and directories of this machine that programs see.
    pub binds: Vec<Bind>,
    /// Host name, and files below `/etc` that replace those of the image. Binds of the container
    /// are mounted over them.
    pub names: HostNames,
    /// Their network, whose interfaces `/sys` shows.
    pub network: BorrowedFd<'a>,
}

/// A file or directory of the machine inside a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Where it is on the machine.
    pub source: PathBuf,
    /// Where it is in the container: an absolute path, which is made if it is not there.
    pub target: PathBuf,
    /// Whether programs may write to it.
    pub writable: bool,
}

/// A root, as long as this lives or a program is in it.
#[derive(Debug)]
pub struct Root {
    /// Of mounts, of the machine's name, of System V's memory.
    namespaces: [(LinkNameSpaceType, OwnedFd); 3],
    /// Its top directory.
    top: OwnedFd,
}

impl Root {
    /// Makes the root.
    ///
    /// # Errors
    /// Without root; for an image or a bind that is not there; where the kernel has no
    /// overlay.
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

    /// Puts the calling process into the root, with a `/proc` of its own process numbers.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Safety
    /// In a freshly forked child only. (It makes only system calls.)
    pub(super) unsafe fn enter(&self) -> rustix::io::Result<()> {
        for (kind, namespace) in &self.namespaces {
            move_into_link_name_space(namespace.as_fd(), Some(*kind))?;
        }
        // SAFETY: no descriptor of this process is shared or borrowed across it.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
        mount(c"proc", c"/proc", c"proc", HARMLESS, None::<&CStr>)?;
        // A root user may write to these whatever capabilities are taken away.
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

    /// The file of a program, as who lives here finds it.
    pub(super) fn program(&self, name: &Path, directory: &Path, path: &str) -> Option<PathBuf> {
        rooted::program(&self.top, name, directory, path)
    }
}

/// Not every kernel has every file.
fn if_there(done: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// No set-user-id and no devices.
const NO_SURPRISES: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
/// And no programs.
const HARMLESS: MountFlags = NO_SURPRISES.union(MountFlags::NOEXEC);
