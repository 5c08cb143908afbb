//! Construction of a container's root, in a thread that enters the new namespaces alone and ends
//! afterwards.
//!
//! The container image is untrusted: the kernel resolves paths in it under the rule that they stay
//! inside it ([`rooted`]). This module does not start programs in the container.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, symlinkat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use timeloom_sys::rooted;

use super::super::identity::{HostNames, write_at};
use super::{Bind, HARMLESS, NO_SURPRISES, Root, RootSpec};

/// Failed operation, and the kernel's error.
pub(super) struct Trouble {
    pub(super) doing: String,
    pub(super) error: io::Error,
}

/// Adds a description of the attempted operation to an error.
fn during<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Trouble {
    let doing = doing.into();
    move |error| Trouble {
        doing,
        error: error.into(),
    }
}

pub(super) fn build(spec: &RootSpec<'_>) -> Result<Root, Trouble> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || in_its_thread(spec));
        let thread = thread.map_err(during("starting a thread"))?;
        thread.join().expect("it does not panic")
    })
}

fn in_its_thread(spec: &RootSpec<'_>) -> Result<Root, Trouble> {
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(spec.network, network).map_err(during("entering its network"))?;
    let apart =
        UnshareFlags::NEWNS | UnshareFlags::FS | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC;
    // SAFETY: descriptors stay shared; the working directory becomes this thread's own.
    unsafe { unshare_unsafe(apart) }.map_err(during("making namespaces, which needs root"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change(c"/", private).map_err(during("making its mounts private"))?;
    spec.names.apply().map_err(during("naming it"))?;

    // An overlay accepts no layer that was opened in another mount namespace.
    let image = open(&spec.image, DIRECTORY, Mode::empty()).map_err(during("opening it"))?;
    // The machine's files are accessed until the end, so the new root must not cover them. Every
    // kernel has this directory, and no part of it is ever bound.
    mount(c"container", PLACE, c"tmpfs", NO_SURPRISES, c"mode=755")
        .map_err(during("mounting a tmpfs"))?;
    let place = open(PLACE, DIRECTORY, Mode::empty()).map_err(during("mounting a tmpfs"))?;
    for part in [c"upper", c"work", c"root"] {
        mkdirat(&place, part, Mode::from(0o755)).map_err(during("mounting a tmpfs"))?;
    }
    // The path of a descriptor contains no character that separates mount options.
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        name_of(&image, ""),
        name_of(&place, "/upper"),
        name_of(&place, "/work"),
    );
    let options = CString::new(options).expect("it has no zero");
    let root = CString::new(name_of(&place, "/root")).expect("it has no zero");
    mount(
        c"container",
        root.as_c_str(),
        c"overlay",
        NO_SURPRISES,
        options.as_c_str(),
    )
    .map_err(during("mounting an overlay on it"))?;
    let top = open(root.as_c_str(), DIRECTORY, Mode::empty()).map_err(during("entering it"))?;
    drop((image, place));

    furnish(&top, spec)?;
    fchdir(&top).map_err(during("entering it"))?;
    if spec.read_only {
        let flags = NO_SURPRISES | MountFlags::BIND | MountFlags::RDONLY;
        mount_remount(c".", flags, c"").map_err(during("making it read-only"))?;
    }
    // Both arguments are the same directory: the machine's root is then mounted on top of it.
    pivot_root(c".", c".").map_err(during("making it the root"))?;
    unmount(c".", UnmountFlags::DETACH).map_err(during("leaving the machine's root"))?;
    chdir(c"/").map_err(during("entering it"))?;
    let own = |kind, name: &CStr| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = open(name, flags, Mode::empty());
        opened
            .map(|namespace| (kind, namespace))
            .map_err(during("opening its namespaces"))
    };
    let namespaces = [
        own(LinkNameSpaceType::Mount, c"/proc/thread-self/ns/mnt")?,
        own(
            LinkNameSpaceType::HostNameAndNISDomainName,
            c"/proc/thread-self/ns/uts",
        )?,
        own(
            LinkNameSpaceType::InterProcessCommunication,
            c"/proc/thread-self/ns/ipc",
        )?,
    ];
    Ok(Root { namespaces, top })
}

/// Adds those parts of a Linux system that are not in the container image.
fn furnish(top: &OwnedFd, spec: &RootSpec<'_>) -> Result<(), Trouble> {
    let devices = MountFlags::NOSUID | MountFlags::NOEXEC;
    let no_options = c"";
    for (path, kind, flags, options) in [
        ("/proc", c"proc", HARMLESS, no_options),
        ("/sys", c"sysfs", HARMLESS | MountFlags::RDONLY, no_options),
        ("/dev", c"tmpfs", devices, c"mode=755,size=64k"),
        ("/dev/pts", c"devpts", devices, c"newinstance,ptmxmode=0666"),
        ("/dev/shm", c"tmpfs", HARMLESS, c"mode=1777"),
    ] {
        let (at, _held) = inside(top, Path::new(path), Kind::Directory)?;
        mount(kind, at.as_c_str(), kind, flags, options)
            .map_err(during(format!("mounting {path}")))?;
    }
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        let path = Path::new("/dev").join(device);
        let (at, _held) = inside(top, &path, Kind::File)?;
        mount_bind(&path, at.as_c_str()).map_err(during(format!("mounting {device} in it")))?;
    }
    let (_, dev) = inside(top, Path::new("/dev"), Kind::Directory)?;
    for (name, to) in [
        (c"fd", c"/proc/self/fd"),
        (c"stdin", c"/proc/self/fd/0"),
        (c"stdout", c"/proc/self/fd/1"),
        (c"stderr", c"/proc/self/fd/2"),
        (c"ptmx", c"pts/ptmx"),
    ] {
        symlinkat(to, &dev, name).map_err(during("linking its devices"))?;
    }
    for path in &spec.rooms {
        let (at, _held) = inside(top, path, Kind::Directory)?;
        mount(
            c"tmpfs",
            at.as_c_str(),
            c"tmpfs",
            NO_SURPRISES,
            c"mode=1777",
        )
        .map_err(during(format!(
            "creating a mount point in {}",
            path.display()
        )))?;
    }
    name_files(top, &spec.names)?;
    spec.binds.iter().try_for_each(|bind| bind_in(top, bind))
}

/// Writes the name service files into the overlay. They replace files of these names in the
/// container image, which are often links.
fn name_files(top: &OwnedFd, names: &HostNames) -> Result<(), Trouble> {
    let (_, etc) = inside(top, Path::new("/etc"), Kind::Directory)?;
    for (name, text) in names.files() {
        match unlinkat(&etc, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(during(format!("replacing /etc/{name}"))(error)),
        }
        write_at(&etc, name, text.as_bytes()).map_err(during(format!("writing /etc/{name}")))?;
    }
    Ok(())
}

fn bind_in(top: &OwnedFd, bind: &Bind) -> Result<(), Trouble> {
    let (from, to) = (bind.source.display(), bind.target.display());
    let doing = || format!("binding {from} to {to}");
    let kind = match std::fs::metadata(&bind.source).map_err(during(doing()))? {
        source if source.is_dir() => Kind::Directory,
        _ => Kind::File,
    };
    let (at, held) = inside(top, &bind.target, kind)?;
    mount_bind_recursive(&bind.source, at.as_c_str()).map_err(during(doing()))?;
    drop(held);
    // The path is looked up again: the descriptor held so far is now below the mount.
    let (at, _held) = inside(top, &bind.target, kind)?;
    restrict_all(&at, !bind.writable).map_err(during(doing()))
}

/// Restricts a mount and all mounts below it.
fn restrict_all(at: &CStr, read_only: bool) -> io::Result<()> {
    // SAFETY: a structure of numbers.
    let mut change: libc::mount_attr = unsafe { std::mem::zeroed() };
    change.attr_set = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    if read_only {
        change.attr_set |= libc::MOUNT_ATTR_RDONLY;
    }
    // SAFETY: passes a C string, and a structure with its size; both are alive.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            at.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kind of a mount point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
}

/// Returns a path by which the kernel finds `path` of the container. It is valid while the returned
/// descriptor is open. Missing parts of `path` are created.
fn inside(top: &OwnedFd, path: &Path, kind: Kind) -> Result<(CString, OwnedFd), Trouble> {
    let doing = || format!("making {}", path.display());
    let mut parent = top.try_clone().map_err(during(doing()))?;
    let mut walked = std::path::PathBuf::from("/");
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let names: Vec<_> = names.collect();
    for (index, name) in names.iter().enumerate() {
        walked.push(name);
        let found = rooted::find(top, &walked);
        if found.as_ref().err().and_then(io::Error::raw_os_error) == Some(libc::ENOENT) {
            let is_last = index + 1 == names.len();
            let mode = Mode::from(0o755);
            let made = match is_last && kind == Kind::File {
                true => {
                    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    openat(&parent, *name, flags, mode).map(drop)
                }
                false => mkdirat(&parent, *name, mode),
            };
            // A dangling link exists, but leads nowhere.
            made.map_err(|error| match error {
                Errno::EXIST => Errno::LOOP,
                other => other,
            })
            .map_err(during(doing()))?;
            parent = rooted::find(top, &walked).map_err(during(doing()))?;
        } else {
            parent = found.map_err(during(doing()))?;
        }
    }
    let name = CString::new(name_of(&parent, "")).expect("it has no zero");
    Ok((name, parent))
}

/// Returns the path `beyond` below the file of an open descriptor of this process.
fn name_of(descriptor: &OwnedFd, beyond: &str) -> String {
    format!("/proc/thread-self/fd/{}{beyond}", descriptor.as_raw_fd())
}

/// Mount point for building the overlay; not visible outside the namespace.
const PLACE: &CStr = c"/proc/fs";
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
