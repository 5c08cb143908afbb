//! Mounts of the file system that only guests see.
//!
//! A mount created by fsmount(2) is detached from all mount namespaces. Each program gets such a
//! mount. Between fork and exec, its process moves the mount into its own mount namespace. (All
//! mounts are of one file system, which the kernel identifies by the device.) To bind single files
//! of it, the directory must be attached for a moment where no other process can see it: over
//! `/proc/fs`, which every kernel has.

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_bind,
    mount_change, move_mount, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Open `/dev/fuse`, which is a connection to the kernel.
pub(super) struct Device(File);

impl Device {
    pub(super) fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        // Without the right to mount, opening the device often fails as well. The error should name
        // the missing right.
        file.map(Self).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES) => io::Error::from_raw_os_error(libc::EPERM),
            _ => error,
        })
    }

    pub(super) fn file(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Returns the descriptor number, under which a child of this process inherits the device.
    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Creates a detached mount of this device's file system. `findmnt` shows `source`.
    pub(super) fn mount(&self, source: &CStr) -> io::Result<OwnedFd> {
        let device = CString::new(self.0.as_raw_fd().to_string()).expect("digits");
        detached(
            c"fuse",
            &[
                (c"source", source),
                (c"subtype", c"timeloom"),
                (c"fd", device.as_c_str()),
                (c"rootmode", c"40555"),
                (c"user_id", c"0"),
                (c"group_id", c"0"),
            ],
            &[c"allow_other", c"default_permissions"],
            READ_ONLY | NO_SURPRISES,
        )
    }
}

/// Creates a detached mount of a file system of this kind.
pub(super) fn detached(
    kind: &CStr,
    texts: &[(&CStr, &CStr)],
    flags: &[&CStr],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for &(key, value) in texts {
        fsconfig_set_string(&context, key, value)?;
    }
    for &flag in flags {
        fsconfig_set_flag(&context, flag)?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// Data by which a process installs the files for itself; prepared before its fork.
pub(crate) struct View {
    mount: OwnedFd,
    /// Numbers of all descriptors of `/dev/fuse` that a child inherits.
    devices: [RawFd; 2],
    uptime: CString,
    stat: CString,
}

impl View {
    pub(super) fn new(mount: OwnedFd, devices: [RawFd; 2], names: [String; 2]) -> Self {
        let [uptime, stat] = names
            .map(|name| CString::new(format!("/proc/fs/{name}")).expect("a name and a number"));
        Self {
            mount,
            devices,
            uptime,
            stat,
        }
    }

    /// Moves the calling process into its own mount namespace, in which the files are mounted.
    /// After a failure, the process sees the machine's files.
    ///
    /// # Errors
    /// Returns the kernel's error.
    ///
    /// # Safety
    /// Call this only in a freshly forked child. (It makes only system calls.)
    pub(crate) unsafe fn enter(&self) -> rustix::io::Result<()> {
        const PROC: &CStr = c"/proc";
        const HERE: &CStr = c"/proc/fs";
        // The connection ends when its last descriptor is closed. If this process kept its
        // descriptor, and the supervisor died now, this process would wait for its own answer for
        // ever.
        for device in self.devices {
            // SAFETY: this process does not use the descriptor elsewhere.
            unsafe { rustix::io::close(device) };
        }
        // SAFETY: the call shares no descriptor of this process, and nothing borrows one across it.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
        // Changes to mounts in /proc must not propagate to the outside. The other mounts keep their
        // propagation: mounts of a program there are visible outside if they were before.
        mount_change(PROC, MountPropagationFlags::DOWNSTREAM)?;
        let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&self.mount, c"", CWD, HERE, whole)?;
        let bound = mount_bind(self.uptime.as_c_str(), c"/proc/uptime")
            .and_then(|()| mount_bind(self.stat.as_c_str(), c"/proc/stat"));
        let _ = unmount(HERE, UnmountFlags::DETACH);
        bound
    }
}

const READ_ONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;
/// Mount attributes that disable set-user-id bits, devices and execution.
pub(super) const NO_SURPRISES: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);
