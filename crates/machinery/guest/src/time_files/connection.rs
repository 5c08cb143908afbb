//! Ending of a FUSE connection from outside. The kernel ends a connection by itself when no process
//! has its `/dev/fuse` open any more. But if a process has inherited that descriptor and then waits
//! for an answer of the file system, it would wait for itself.
//!
//! This uses fusectl, the kernel's own file system of connections. It need not be mounted anywhere,
//! since this module creates a detached mount of it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};

use super::mount::{NO_SURPRISES, detached};
use crate::names::PageName;

/// FUSE connection, by the number that the kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection(u64);

impl Connection {
    /// Returns the connection of a mount. Queries only the kernel, not the server.
    pub(crate) fn of(mount: BorrowedFd<'_>) -> io::Result<Self> {
        // Cached data is enough, so that the file system's server is not queried.
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = statx(mount, c"", how, StatxFlags::TYPE)?;
        Ok(Self::numbered(
            stat.stx_dev_major.into(),
            stat.stx_dev_minor.into(),
        ))
    }

    /// Creates the value from the device number, which the kernel uses as the connection's name.
    fn numbered(major: u64, minor: u64) -> Self {
        Self(major << 20 | minor)
    }

    /// Ends the connection: requests in progress fail with ECONNABORTED, later requests with
    /// ENOTCONN.
    pub(crate) fn abort(self) -> io::Result<()> {
        let control = detached(c"fusectl", &[], &[], NO_SURPRISES)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let abort = openat(control, format!("{}/abort", self.0), flags, Mode::empty())?;
        File::from(abort).write_all(b"1")
    }
}

/// Returns the connections whose files a process sees, each with the clock page of its session.
pub(crate) fn seen_by(pid: i32) -> Vec<(PageName, Connection)> {
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    text.lines().filter_map(connection_in).collect()
}

/// Returns a handle that keeps the mounts of a process alive, so that their connection numbers are
/// not reused.
pub(crate) fn mounts_of(pid: i32) -> io::Result<File> {
    File::open(Path::new("/proc").join(pid.to_string()).join("ns/mnt"))
}

/// Parses /proc/PID/mountinfo: `ID PARENT MAJOR:MINOR … - fuse.timeloom PAGE …`.
fn connection_in(line: &str) -> Option<(PageName, Connection)> {
    let (left, right) = line.split_once(" - fuse.timeloom ")?;
    let page = PageName::told(right.split(' ').next()?)?;
    let (major, minor) = left.split(' ').nth(2)?.split_once(':')?;
    let connection = Connection::numbered(major.parse().ok()?, minor.parse().ok()?);
    Some((page, connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_tells_its_session_and_connection() {
        let line = "812 790 0:71 /uptime.0 /proc/uptime ro,nosuid - fuse.timeloom \
                    timeloom-abi-a.17.0 ro,user_id=0,allow_other";
        let (page, connection) = connection_in(line).unwrap();
        assert_eq!(page.session(), "a");
        assert_eq!(connection, Connection(71));
        for other in [
            "812 790 0:71 / /mnt rw - fuse.sshfs timeloom-abi-a.17.0 rw",
            "812 790 0:71 / /mnt rw - fuse.timeloom another rw",
            "812 790 071 / /mnt rw - fuse.timeloom timeloom-abi-a.17.0 rw",
            "",
        ] {
            assert!(connection_in(other).is_none(), "{other}");
        }
    }
}
