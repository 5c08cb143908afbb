//! Files `/proc/uptime` and `/proc/stat`, which show the clock of the guest's host.
//!
//! A seccomp filter sees no path, and trapping every `open` would slow all programs for the sake of
//! two files. So a launched program gets its own mount namespace, in which two files of a FUSE file
//! system are mounted over those of /proc. The supervisor answers reads of these files. Processes
//! started by the program inherit the namespace.
//!
//! - `text`: contents of the files;
//! - `server`: the file system, with two files for each host;
//! - `mount`: mounts of the file system, and their installation for a program;
//! - `connection`: ending the file system from outside.
//!
//! Only guests see the mounts, so that nothing can be left behind. When the supervisor dies, the
//! kernel or the reaper ends the connection, and readers get ENOTCONN instead of waiting. The
//! server takes no lock that is held while processes are being stopped: a guest in the middle of a
//! read gets its answer first, and is stopped then.
//!
//! Other files of /proc are not covered. Neither are programs attached by `register`, which keep
//! their original mount namespace.

mod connection;
mod mount;
mod server;
mod text;

use parking_lot::Mutex;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::clock::Host;
use crate::names::PageName;
pub(crate) use connection::{Connection, mounts_of, seen_by};
use mount::Device;
pub(crate) use mount::View;
use server::{Files, Server};

/// FUSE file system, with its server.
pub(crate) struct TimeFiles {
    device: Device,
    /// Source name of the mounts, which identifies the session.
    source: CString,
    /// Descriptor of `/dev/fuse` by which the file system is served. It is open as long as `mount`.
    served_by: RawFd,
    files: Arc<Mutex<Files>>,
    /// Mount that keeps the file system alive while no program has it mounted.
    mount: OwnedFd,
}

impl TimeFiles {
    /// Creates the file system of the session with the clock page `page`, and starts its server.
    ///
    /// # Errors
    /// Fails without root privileges, which mounting needs, and on a kernel without FUSE.
    pub(crate) fn start(page: &PageName) -> Result<Self, MachineFiles> {
        let start = || -> io::Result<Self> {
            let machine = text::Machine::open()?;
            let device = Device::open()?;
            let source = page.to_c_string();
            let mount = device.mount(&source)?;
            let files = Arc::new(Mutex::new(Files::new(machine)?));
            let served = device.file()?;
            let served_by = served.as_raw_fd();
            let server = Server::new(Arc::clone(&files)).on(served)?;
            // The thread ends by itself when the last mount is gone, and is not joined.
            std::thread::Builder::new()
                .name("time-files".into())
                .spawn(move || server.run())?;
            Ok(Self {
                device,
                source,
                served_by,
                files,
                mount,
            })
        };
        start().map_err(MachineFiles::Refused)
    }

    /// Returns the view of the files for a program of `host`.
    ///
    /// # Errors
    /// Fails if the kernel refuses another mount.
    pub(crate) fn view(&self, host: &Arc<Host>) -> io::Result<View> {
        let names = self.lock().add(host);
        let devices = [self.device.number(), self.served_by];
        Ok(View::new(self.device.mount(&self.source)?, devices, names))
    }

    /// Returns a mount of the file system.
    pub(crate) fn mount(&self) -> BorrowedFd<'_> {
        self.mount.as_fd()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Files> {
        self.files.lock()
    }
}

/// Reason why programs see the machine's files.
#[derive(Debug)]
pub(crate) enum MachineFiles {
    /// The user has chosen this.
    AsAsked,
    /// The kernel refuses such a file system, or another mount of it.
    Refused(io::Error),
}

impl fmt::Display for MachineFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: &str = "/proc/uptime and /proc/stat show the machine's uptime and boot time";
        let error = match self {
            Self::AsAsked => return write!(f, "{SHOWN}, as asked for"),
            Self::Refused(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EPERM) => write!(f, "{SHOWN}: mounting needs root (CAP_SYS_ADMIN)"),
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                write!(f, "{SHOWN}: this machine has no FUSE ({error})")
            }
            _ => write!(f, "{SHOWN}: {error}"),
        }
    }
}
