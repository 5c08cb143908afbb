//! Names by which a session is found from outside: the name of its clock page, which its processes
//! have mapped, and that of its control socket.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use timeloom_abi::PAGE_ADDRESS;
use timeloom_sys::{local, own};

use crate::linux::processes::{self, MappedMemfd};

/// Name of a clock page: `timeloom-abi-SESSION.PID.NUMBER.NAMESPACE`. PID is that of the
/// supervisor, NAMESPACE its PID namespace; together with NUMBER they distinguish it from every
/// other session of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageName(String);

impl PageName {
    pub(crate) fn new(session: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!(
            "{PAGE_PREFIX}{session}.{}.{}.{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed),
            own_pid_namespace()
        ))
    }

    /// Parses a name that a process's mappings contain. Returns `None` if it is not that of a clock
    /// page.
    pub(crate) fn told(name: &str) -> Option<Self> {
        name.starts_with(PAGE_PREFIX).then(|| Self(name.to_owned()))
    }

    pub(crate) fn to_c_string(&self) -> CString {
        CString::new(self.0.as_str()).expect("names have no zero byte")
    }

    /// Returns the processes of the session, except this one: all processes that map the page at
    /// the address used for guests.
    pub(crate) fn mapped_by(&self) -> Vec<i32> {
        processes::others(|pid| self.is_page_of(pid))
    }

    /// Returns all processes like [`Self::mapped_by`], or an error instead of an incomplete list.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub(crate) fn try_mapped_by(&self) -> io::Result<Vec<i32>> {
        let own = std::process::id() as i32;
        let mut found = Vec::new();
        for pid in processes::try_all()? {
            let memfds = processes::try_memfds_of(pid, PAGE_PREFIX)?;
            if pid != own && pages_among(memfds).iter().any(|page| self.is_guests(page)) {
                found.push(pid);
            }
        }
        Ok(found)
    }

    fn is_guests(&self, page: &MappedPage) -> bool {
        !page.writable && page.name == *self
    }

    /// Returns true if the process belongs to the session.
    pub(crate) fn is_page_of(&self, pid: i32) -> bool {
        pages_of(pid).iter().any(|page| self.is_guests(page))
    }

    /// Returns a name for the image of an attached process of the session.
    pub(crate) fn image_name(&self, pid: i32) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let rest = self.0.strip_prefix(PAGE_PREFIX).unwrap_or_default();
        format!("timeloom-image-{rest}-{pid}.{}", NEXT.fetch_add(1, Relaxed))
    }

    pub(crate) fn session(&self) -> &str {
        self.parts().next().unwrap_or_default()
    }

    /// Returns true if the process `pid` is the supervisor. The supervisor may have another number
    /// in its own PID namespace.
    pub(crate) fn is_of_supervisor(&self, pid: i32) -> bool {
        let named = self.parts().nth(1).and_then(|part| part.parse().ok());
        named.is_some_and(|named: i32| processes::numbers(pid).contains(&named))
    }

    /// Returns true if the supervisor belongs to another user, which hides its mappings from this
    /// process.
    pub(crate) fn has_hidden_supervisor(&self) -> bool {
        let pid = self.parts().nth(1).unwrap_or_default();
        fs::read_to_string(format!("/proc/{pid}/maps"))
            .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Returns true if a live supervisor would be visible: it belongs to our PID namespace, or this
    /// process sees all processes.
    pub(crate) fn may_be_judged(&self) -> bool {
        let own = own_pid_namespace();
        own == FIRST_PID_NAMESPACE
            || self
                .parts()
                .nth(3)
                .is_none_or(|named| named == own.to_string())
    }

    /// Returns the parts of the name: session, PID, number and PID namespace. (Names of sessions
    /// contain no dots.)
    fn parts(&self) -> impl Iterator<Item = &str> {
        self.0
            .strip_prefix(PAGE_PREFIX)
            .unwrap_or_default()
            .split('.')
    }
}

/// Returns the inode of our PID namespace; 0 without /proc.
fn own_pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Inode of the initial PID namespace, ancestor of all others (PROC_PID_INIT_INO of the kernel).
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;

/// Clock page that a process has mapped. The supervisor maps it for writing, guests for reading.
pub(crate) struct MappedPage {
    pub(crate) name: PageName,
    pub(crate) writable: bool,
}

/// Returns the clock pages that a process has mapped. All guests map theirs at the same address.
pub(crate) fn pages_of(pid: i32) -> Vec<MappedPage> {
    pages_among(processes::memfds_of(pid, PAGE_PREFIX))
}

fn pages_among(memfds: Vec<MappedMemfd>) -> Vec<MappedPage> {
    memfds
        .into_iter()
        .filter(|memfd| memfd.writable || memfd.start == PAGE_ADDRESS)
        .map(|memfd| MappedPage {
            name: PageName(memfd.name),
            writable: memfd.writable,
        })
        .collect()
}

/// Returns the directory of control sockets, which only this user may enter.
pub fn runtime_directory() -> PathBuf {
    own::meeting_place(Path::new("/run/timeloom"), "timeloom")
}

/// Returns the path of a session's control socket.
pub(crate) fn socket_path(session: &str) -> PathBuf {
    runtime_directory().join(format!("{session}.sock"))
}

/// State of a session's control socket.
pub(crate) enum Found {
    /// A process listens. It may or may not answer.
    Listener(UnixStream),
    /// The queue of connections is full, so a process listens.
    Full,
    /// No process listens.
    Nobody,
}

/// Connects to a session's control socket without waiting.
pub(crate) fn find(socket: &Path) -> Found {
    match local::connect(socket, AT_ONCE) {
        // An untrusted process could listen there to impersonate a session.
        Ok(stream) if is_trusted(&stream) => Found::Listener(stream),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Found::Full,
        _ => Found::Nobody,
    }
}

fn is_trusted(stream: &UnixStream) -> bool {
    let user = rustix::process::geteuid().as_raw();
    local::peer(stream).is_ok_and(|peer| peer.uid == user || peer.uid == 0)
}

/// Socket in the directory of control sockets. A session listens on it, or left it behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSocket {
    /// Name of the session.
    pub name: String,
    /// Identity of the file: its inode, and the time of its creation. A later session of the same
    /// name has another one.
    pub identity: (u64, i64, i64),
}

/// Returns the control sockets, sorted by name, without a connection to any: each connection starts
/// a thread in a session's supervisor.
///
/// # Errors
/// Fails like [`list_sessions`].
pub fn session_sockets() -> Result<Vec<SessionSocket>, own::UnsafeDirectory> {
    let directory = runtime_directory();
    match own::check(&directory) {
        Err(error) if !error.is_absent() => return Err(error),
        _ => {}
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let socket = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str()?.strip_suffix(".sock")?.to_owned();
        let meta = entry.metadata().ok()?;
        let identity = (meta.ino(), meta.mtime(), meta.mtime_nsec());
        Some(SessionSocket { name, identity })
    };
    let mut sockets: Vec<SessionSocket> = entries.filter_map(socket).collect();
    sockets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sockets)
}

/// Returns the names of the existing sessions, including those that do not answer.
///
/// # Errors
/// Fails if other users could have created sockets in the directory. A missing directory means that
/// there are no sessions.
pub fn list_sessions() -> Result<Vec<String>, own::UnsafeDirectory> {
    let names = session_sockets()?.into_iter().map(|socket| socket.name);
    Ok(names.filter(|name| is_served(name)).collect())
}

/// Returns true if a session listens on the socket of this name, whether or not it answers.
pub(crate) fn is_served(session: &str) -> bool {
    !matches!(find(&socket_path(session)), Found::Nobody)
}

/// Timeout that the kernel accepts as a limit. (Zero would mean no limit.)
const AT_ONCE: Duration = Duration::from_millis(1);

/// Prefix of the memfd name of every clock page.
pub(crate) const PAGE_PREFIX: &str = "timeloom-abi-";

/// Name in /proc/PID/maps of a released program's clock page.
pub(crate) const RELEASED_PAGE: &str = "timeloom-released";
