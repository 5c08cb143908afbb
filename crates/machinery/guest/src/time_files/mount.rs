//! Mounting the file system where only guests see it.
//!
//! A mount that is made by fsmount(2) is in nobody's tree. A program gets one of
//! its own, which its process takes into its own mount namespace, between fork and
//! exec. (All are of one file system: the kernel knows by the device that they
//! belong together.) To bind single files, the directory must be somewhere for
//! a moment, where nobody else can see it: over `/proc/fs`, which every kernel has.

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// `/dev/fuse`, once opened: a connection.
pub(super) struct Device(File);

impl Device {
    pub(super) fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        // Who may not mount may often not open it either, and should hear of the first.
        file.map(Self).map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES) => io::Error::from_raw_os_error(libc::EPERM),
            _ => error,
        })
    }

    pub(super) fn file(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Its descriptor, which a child of this process has too.
    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// A mount of its file system, in nobody's tree. `source` is what `findmnt` shows.
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

/// A mount of a file system of this kind, in nobody's tree.
pub(super) fn detached(
    kind: &CStr,
    texts: &[(&CStr, &CStr)],
    flags: &[&CStr],
    attributes: libc::c_uint,
) -> io::Result<OwnedFd> {
    // SAFETY: a C string; the result is a new descriptor.
    let context = unsafe {
        owned(libc::syscall(
            libc::SYS_fsopen,
            kind.as_ptr(),
            FSOPEN_CLOEXEC,
        ))?
    };
    for (key, value) in texts {
        configure(&context, FSCONFIG_SET_STRING, Some(key), Some(value))?;
    }
    for flag in flags {
        configure(&context, FSCONFIG_SET_FLAG, Some(flag), None)?;
    }
    configure(&context, FSCONFIG_CMD_CREATE, None, None)?;
    // SAFETY: a descriptor and numbers; the result is a new descriptor.
    unsafe {
        owned(libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes,
        ))
    }
}

fn configure(
    context: &OwnedFd,
    command: libc::c_uint,
    key: Option<&CStr>,
    value: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: C strings or nothing, as the command demands.
    let done = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            command,
            pointer(key),
            pointer(value),
            0,
        )
    };
    (done == 0)
        .then_some(())
        .ok_or_else(io::Error::last_os_error)
}

/// # Safety
/// `result` is that of a call which gives a new descriptor.
pub(super) unsafe fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// What a process needs to see the files; made before its fork.
pub(crate) struct View {
    mount: OwnedFd,
    /// All descriptors of `/dev/fuse` that a child inherits.
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

    /// Puts the calling process into a mount namespace of its own, with the files in
    /// it. Returns false, with errno, when something fails; the process sees the
    /// machine's files then.
    ///
    /// # Safety
    /// In a freshly forked child only. (It makes only system calls.)
    pub(crate) unsafe fn enter(&self) -> bool {
        const PROC: &CStr = c"/proc";
        const HERE: &CStr = c"/proc/fs";
        let none = std::ptr::null::<libc::c_char>();
        let bind = |from: &CStr, to: &CStr| {
            // SAFETY: C strings; a bind looks at nothing else.
            unsafe {
                libc::mount(from.as_ptr(), to.as_ptr(), none, libc::MS_BIND, none.cast()) == 0
            }
        };
        // SAFETY: C strings and descriptors of ours.
        unsafe {
            // The connection ends with its last descriptor. Were that one of this process,
            // a supervisor that dies now would leave it waiting for its own answer for ever.
            for device in self.devices {
                libc::close(device);
            }
            if libc::unshare(libc::CLONE_NEWNS) != 0 {
                return false;
            }
            // What we do in /proc is not for others. Other mounts stay as they
            // were: what a program mounts there is seen outside if it was before.
            if libc::mount(none, PROC.as_ptr(), none, libc::MS_SLAVE, none.cast()) != 0 {
                return false;
            }
            let moved = libc::syscall(
                libc::SYS_move_mount,
                self.mount.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_FDCWD,
                HERE.as_ptr(),
                MOVE_MOUNT_F_EMPTY_PATH,
            );
            if moved != 0 {
                return false;
            }
            let bound = bind(&self.uptime, c"/proc/uptime") && bind(&self.stat, c"/proc/stat");
            let errno = *libc::__errno_location();
            libc::umount2(HERE.as_ptr(), libc::MNT_DETACH);
            *libc::__errno_location() = errno;
            bound
        }
    }
}

// From <linux/mount.h>.
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_FLAG: libc::c_uint = 0;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const READ_ONLY: libc::c_uint = 1;
/// No set-user-id, no devices, no programs.
pub(super) const NO_SURPRISES: libc::c_uint = 0xe;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
