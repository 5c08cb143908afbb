//! FUSE file system with the files `uptime.N` and `stat.N` for host N, all in one directory.
//!
//! Like the kernel's own files, they have size 0. Their contents are computed at a read from offset
//! 0; later reads return the rest of the same text.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    IoctlFlags, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyOpen, Request, Session, SessionACL,
};
use timeloom_time::Utc;

use super::text::{self, Idle, IdleShare, Machine};
use crate::clock::Host;

/// Hosts for which there are files.
pub(super) struct Files {
    machine: Machine,
    /// Uptime and idle time of the machine when the session began, which all hosts start with.
    first: Idle,
    /// Hosts by number.
    hosts: HashMap<u64, (Arc<Host>, IdleShare)>,
}

impl Files {
    pub(super) fn new(machine: Machine) -> io::Result<Self> {
        Ok(Self {
            first: machine.idle()?,
            machine,
            hosts: HashMap::new(),
        })
    }

    /// Adds the files of `host`. Returns their names: that of its uptime, and that of its
    /// statistics.
    pub(super) fn add(&mut self, host: &Arc<Host>) -> [String; 2] {
        let number = host.index() as u64;
        self.hosts
            .entry(number)
            .or_insert_with(|| (Arc::clone(host), IdleShare::new(self.first)));
        [Kind::Uptime, Kind::Stat].map(|kind| format!("{}{number}", kind.prefix()))
    }

    fn text(&mut self, which: FileIdentity) -> io::Result<String> {
        let (host, idle) = self
            .hosts
            .get_mut(&which.host)
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(match which.kind {
            Kind::Stat => text::stat(&self.machine.stat()?, text::boot_s(host)),
            Kind::Uptime => {
                let machine = self.machine.idle()?;
                let uptime_ns = text::uptime_ns(host);
                text::uptime(Idle {
                    uptime_ns,
                    idle_ns: idle.at(machine, uptime_ns),
                })
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Uptime,
    Stat,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Uptime => "uptime.",
            Self::Stat => "stat.",
        }
    }
}

/// Identity of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    kind: Kind,
    host: u64,
}

impl FileIdentity {
    fn named(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        [Kind::Uptime, Kind::Stat].into_iter().find_map(|kind| {
            let host = name.strip_prefix(kind.prefix())?.parse().ok()?;
            Some(Self { kind, host })
        })
    }

    /// Returns the inode number. The directory has number 1; two numbers for each host follow.
    fn inode(self) -> INodeNo {
        INodeNo(2 + 2 * self.host + u64::from(self.kind == Kind::Stat))
    }

    fn at(inode: INodeNo) -> Option<Self> {
        let number = inode.0.checked_sub(2)?;
        Some(Self {
            kind: [Kind::Uptime, Kind::Stat][(number % 2) as usize],
            host: number / 2,
        })
    }
}

/// Server that answers the kernel's FUSE requests.
pub(super) struct Server {
    files: Arc<Mutex<Files>>,
    open: Mutex<Opened>,
}

/// State of the open files.
#[derive(Default)]
struct Opened {
    last: u64,
    /// Contents by file handle, since the last read from offset 0.
    texts: HashMap<u64, Arc<[u8]>>,
}

impl Server {
    pub(super) fn new(files: Arc<Mutex<Files>>) -> Self {
        Self {
            files,
            open: Mutex::default(),
        }
    }

    /// Creates a FUSE session that serves this device, whose file system is already mounted.
    pub(super) fn on(self, device: File) -> io::Result<Session<Self>> {
        // All users have access, since programs may change their user.
        Session::from_fd(self, device.into(), SessionACL::All, Config::default())
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.open.lock()
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let which = FileIdentity::at(inode);
        let time = match which {
            None => UNIX_EPOCH,
            Some(which) => civil(&self.files().hosts.get(&which.host)?.0),
        };
        Some(FileAttr {
            ino: inode,
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: match which {
                Some(_) => FileType::RegularFile,
                None => FileType::Directory,
            },
            perm: if which.is_some() { 0o444 } else { 0o555 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 1024,
            flags: 0,
        })
    }

    /// Returns the contents of a file from `offset` on.
    fn bytes(&self, which: FileIdentity, handle: u64, offset: u64) -> io::Result<Arc<[u8]>> {
        let known = self.opened().texts.get(&handle).cloned();
        if let Some(text) = known.filter(|_| offset > 0) {
            return Ok(text);
        }
        let text: Arc<[u8]> = self.files().text(which)?.into_bytes().into();
        self.opened().texts.insert(handle, Arc::clone(&text));
        Ok(text)
    }
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let which = FileIdentity::named(name).filter(|_| parent == INodeNo::ROOT);
        match which.and_then(|which| self.attributes(which.inode())) {
            Some(attributes) => reply.entry(&KEPT, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&KEPT, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if FileIdentity::at(inode).is_none() || flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EACCES);
        }
        let handle = {
            let mut opened = self.opened();
            opened.last += 1;
            opened.last
        };
        // With these flags the kernel sends each read to the server, and no close.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(handle), flags);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(which) = FileIdentity::at(inode) else {
            return reply.error(Errno::EISDIR);
        };
        match self.bytes(which, handle.0, offset) {
            Ok(text) => {
                let from = usize::try_from(offset).map_or(text.len(), |at| at.min(text.len()));
                let to = from.saturating_add(size as usize).min(text.len());
                reply.data(&text[from..to]);
            }
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.opened().texts.remove(&handle.0);
        reply.ok();
    }

    /// Answers an `ioctl`. The runtimes of some languages make one on each file that they open, to
    /// check whether it is a terminal.
    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }
}

/// Returns the present CLOCK_REALTIME of `host`.
fn civil(host: &Host) -> SystemTime {
    let ns = host.now_on::<Utc>().as_ns();
    let length = Duration::from_nanos(ns.unsigned_abs());
    let time = if ns < 0 {
        UNIX_EPOCH.checked_sub(length)
    } else {
        UNIX_EPOCH.checked_add(length)
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// Time for which the kernel may cache the attributes of a file.
const KEPT: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_inodes_tell_the_file() {
        for (name, host, kind) in [
            ("uptime.0", 0, Kind::Uptime),
            ("stat.0", 0, Kind::Stat),
            ("uptime.17", 17, Kind::Uptime),
            ("stat.17", 17, Kind::Stat),
        ] {
            let which = FileIdentity::named(OsStr::new(name)).expect(name);
            assert_eq!(which, FileIdentity { kind, host });
            assert_eq!(FileIdentity::at(which.inode()), Some(which));
        }
        for name in ["", "uptime", "uptime.", "stat.-1", "stat.x", "loadavg.0"] {
            assert_eq!(FileIdentity::named(OsStr::new(name)), None, "{name}");
        }
        assert_eq!(FileIdentity::at(INodeNo::ROOT), None);
        assert_eq!(FileIdentity::at(INodeNo(0)), None);
    }
}
