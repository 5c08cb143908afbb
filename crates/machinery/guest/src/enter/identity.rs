//! Identity of a host for its programs: the host name, and the files by which names are resolved.
//!
//! Each host has its own UTS namespace with its name, and its own mount namespace with its own
//! `/etc/hosts`, `/etc/resolv.conf` and `/etc/hostname`. All programs of the host enter both
//! namespaces, so that mounts made by one program are visible to the others. Mounts that the
//! machine makes later appear there as well; mounts made inside stay inside. Only descriptors keep
//! the namespaces alive, so they end with the run.
//!
//! The root of a container has its own mount and UTS namespaces (`root`), and gets the same files.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::process::fchdir;
use rustix::system::sethostname;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::error::GuestError;

/// Host name and name service files of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNames {
    /// Host name, as `uname -n` shows it.
    pub hostname: String,
    /// Text of `/etc/hosts`.
    pub hosts: String,
    /// Text of `/etc/resolv.conf`.
    pub resolver: String,
}

impl HostNames {
    /// Returns the names, relative to `/etc`, and the texts of the files.
    pub(super) fn files(&self) -> [(&'static str, String); 3] {
        [
            (HOSTS, self.hosts.clone()),
            ("resolv.conf", self.resolver.clone()),
            ("hostname", format!("{}\n", self.hostname)),
        ]
    }

    /// Sets the host name of the calling thread's UTS namespace.
    pub(super) fn apply(&self) -> io::Result<()> {
        Ok(sethostname(self.hostname.as_bytes())?)
    }
}

/// Namespaces of a host. They exist as long as this value or a program in them.
#[derive(Debug)]
pub struct Identity {
    namespaces: [(LinkNameSpaceType, OwnedFd); 2],
    /// The supervisor's root directory in that mount namespace. It differs from the namespace's
    /// root after a `chroot`.
    top: OwnedFd,
}

impl Identity {
    /// Creates the namespaces of a host.
    ///
    /// # Errors
    /// Fails without CAP_SYS_ADMIN, if `/etc/hosts` is missing, or if the kernel refuses the
    /// mounts.
    pub fn new(names: &HostNames) -> Result<Self, GuestError> {
        std::thread::scope(|scope| {
            // A separate thread does this, since unshare(2) moves the calling thread permanently.
            let thread = std::thread::Builder::new().spawn_scoped(scope, || build(names));
            let thread = thread.map_err(GuestError::system("starting a thread"))?;
            thread.join().expect("it does not panic")
        })
    }

    /// Moves the calling process into the namespaces. Its working directory becomes `/`.
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
        fchdir(&self.top)?;
        rustix::process::chroot(c".")
    }
}

fn build(names: &HostNames) -> Result<Identity, GuestError> {
    let apart = UnshareFlags::NEWNS | UnshareFlags::FS | UnshareFlags::NEWUTS;
    // SAFETY: descriptors stay shared; the working directory becomes this thread's own.
    unsafe { unshare_unsafe(apart) }.map_err(during("making mount and UTS namespaces"))?;
    let all = MountPropagationFlags::REC;
    mount_change(c"/", MountPropagationFlags::DOWNSTREAM | all)
        .map_err(during("making mounts private"))?;
    names.apply().map_err(during("setting the host name"))?;

    mount(c"names", PLACE, c"tmpfs", HARMLESS, c"mode=755,size=64m")
        .map_err(during("mounting a tmpfs for /etc/hosts"))?;
    for (name, text) in names.files() {
        let source = write(name, text.as_bytes()).map_err(during(format!("writing {name}")))?;
        let target = CString::new(format!("/etc/{name}")).expect("it has no zero");
        match mount_bind(source.as_c_str(), target.as_c_str()) {
            Err(Errno::NOENT) if name == HOSTS => {
                return Err(GuestError::Unsupported(
                    "this machine has no /etc/hosts to mount a host's own over; create an empty \
                     one (`touch /etc/hosts`)"
                        .to_owned(),
                ));
            }
            // If the machine lacks the file, resolvers use defaults, which name no server outside
            // either.
            Err(Errno::NOENT) => {}
            done => done.map_err(during(format!("mounting /etc/{name}")))?,
        }
    }
    let nothing = write("nothing", b"").map_err(during("writing an empty file"))?;
    for socket in MACHINES_RESOLVERS {
        match mount_bind(nothing.as_c_str(), socket) {
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            done => done.map_err(during(format!("masking {}", socket.to_string_lossy())))?,
        }
    }
    unmount(PLACE, UnmountFlags::DETACH).map_err(during("unmounting the tmpfs"))?;
    // Mounts propagate among the programs of this host.
    mount_change(c"/", MountPropagationFlags::SHARED | all)
        .map_err(during("sharing mounts among a host's programs"))?;
    let held = |name: &CStr, flags: OFlags| {
        let opened = open(name, flags | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(during("opening the namespaces"))
    };
    Ok(Identity {
        namespaces: [
            (
                LinkNameSpaceType::Mount,
                held(c"/proc/thread-self/ns/mnt", OFlags::RDONLY)?,
            ),
            (
                LinkNameSpaceType::HostNameAndNISDomainName,
                held(c"/proc/thread-self/ns/uts", OFlags::RDONLY)?,
            ),
        ],
        top: held(c"/", OFlags::PATH | OFlags::DIRECTORY)?,
    })
}

/// Creates a file in [`PLACE`]. Returns its path.
fn write(name: &str, text: &[u8]) -> io::Result<CString> {
    let place = open(PLACE, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    write_at(&place, name, text)?;
    let place = PLACE.to_string_lossy();
    Ok(CString::new(format!("{place}/{name}")).expect("it has no zero"))
}

/// Creates a world-readable file in the directory `place`.
pub(super) fn write_at(place: &OwnedFd, name: &str, text: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(place, name, flags, Mode::from(0o644))?;
    // The mode must not depend on the umask, so it is set explicitly.
    rustix::fs::fchmod(&file, Mode::from(0o644))?;
    io::Write::write_all(&mut std::fs::File::from(file), text)
}

fn during<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> GuestError {
    let doing = doing.into();
    move |error| GuestError::System {
        doing,
        source: error.into(),
    }
}

const HOSTS: &str = "hosts";

/// Temporary mount point of the tmpfs; every kernel has this directory.
const PLACE: &CStr = c"/proc/fs";
const HARMLESS: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);

/// Sockets of daemons that resolve names from the machine's files: nscd, systemd-resolved and
/// Avahi. They are hidden from programs; a C library that finds no daemon uses the files.
const MACHINES_RESOLVERS: [&CStr; 3] = [
    c"/run/nscd/socket",
    c"/run/systemd/resolve/io.systemd.Resolve",
    c"/run/avahi-daemon/socket",
];
