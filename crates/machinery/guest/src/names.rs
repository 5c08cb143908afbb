//! How a session is found from outside: by the name of its clock page, which its
//! processes have mapped, and by that of its control socket.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use timeloom_page::PAGE_ADDRESS;
use timeloom_sys::{local, own};

use crate::linux::processes::{self, MappedMemfd};

/// Name of a clock page: `timeloom-page-SESSION.PID.NUMBER.NAMESPACE`. The supervisor's PID, its
/// PID namespace and the number distinguish it from every other session of the same name.
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

    /// As a process tells it by which we know it.
    pub(crate) fn told(name: &str) -> Option<Self> {
        name.starts_with(PAGE_PREFIX).then(|| Self(name.to_owned()))
    }

    pub(crate) fn to_c_string(&self) -> CString {
        CString::new(self.0.as_str()).expect("names have no zero byte")
    }

    /// The processes of the session: all that map the page where guests have it, but
    /// ourselves.
    pub(crate) fn mapped_by(&self) -> Vec<i32> {
        processes::others(|pid| self.is_page_of(pid))
    }

    /// As [`Self::mapped_by`], for who must miss none.
    ///
    /// # Errors
    /// There is no descriptor to look.
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

    /// Whether it is a process of the session.
    pub(crate) fn is_page_of(&self, pid: i32) -> bool {
        pages_of(pid).iter().any(|page| self.is_guests(page))
    }

    /// A name for the image of a registered process of the session.
    pub(crate) fn image_name(&self, pid: i32) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let rest = self.0.strip_prefix(PAGE_PREFIX).unwrap_or_default();
        format!("timeloom-image-{rest}-{pid}.{}", NEXT.fetch_add(1, Relaxed))
    }

    pub(crate) fn session(&self) -> &str {
        self.parts().next().unwrap_or_default()
    }

    /// Whether the process of this number is the supervisor. It may be in a namespace of
    /// processes that has another number for it.
    pub(crate) fn is_of_supervisor(&self, pid: i32) -> bool {
        let named = self.parts().nth(1).and_then(|part| part.parse().ok());
        named.is_some_and(|named: i32| processes::numbers(pid).contains(&named))
    }

    /// Whether the supervisor is another user's, so that we cannot see what it
    /// maps.
    pub(crate) fn has_hidden_supervisor(&self) -> bool {
        let pid = self.parts().nth(1).unwrap_or_default();
        fs::read_to_string(format!("/proc/{pid}/maps"))
            .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Returns true if a live supervisor would be visible: it belongs to our PID namespace, or all
    /// processes are visible.
    pub(crate) fn may_be_judged(&self) -> bool {
        let own = own_pid_namespace();
        own == FIRST_PID_NAMESPACE
            || self
                .parts()
                .nth(3)
                .is_none_or(|named| named == own.to_string())
    }

    /// Returns session, PID, number and PID namespace: names of sessions contain no dots.
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

/// A clock page in a process. The supervisor has it mapped for writing, guests
/// for reading.
pub(crate) struct MappedPage {
    pub(crate) name: PageName,
    pub(crate) writable: bool,
}

/// The clock pages that a process has mapped. Guests have theirs all at one address.
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

/// Where control sockets lie: a directory that only this user may enter.
pub fn runtime_directory() -> PathBuf {
    own::meeting_place(Path::new("/run/timeloom"), "timeloom")
}

/// The socket of a session.
pub(crate) fn socket_path(session: &str) -> PathBuf {
    runtime_directory().join(format!("{session}.sock"))
}

/// What is at the name of a session.
pub(crate) enum Found {
    /// Somebody listens. Whether he answers is another question.
    Listener(UnixStream),
    /// So many wait already that he takes no more.
    Full,
    /// Nobody.
    Nobody,
}

/// Looks for a session. Never waits.
pub(crate) fn find(socket: &Path) -> Found {
    match local::connect(socket, AT_ONCE) {
        // Else it is somebody's who only waits for us to believe him.
        Ok(stream) if is_trusted(&stream) => Found::Listener(stream),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Found::Full,
        _ => Found::Nobody,
    }
}

fn is_trusted(stream: &UnixStream) -> bool {
    let user = rustix::process::geteuid().as_raw();
    local::peer(stream).is_ok_and(|peer| peer.uid == user || peer.uid == 0)
}

/// Names of the sessions that are there. One that is stuck is there, too.
///
/// # Errors
/// Others could have put sockets there. No directory is no session.
pub fn list_sessions() -> Result<Vec<String>, own::NotOwn> {
    let directory = runtime_directory();
    match own::check(&directory) {
        Err(error) if !error.is_absent() => return Err(error),
        _ => {}
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| !matches!(find(&entry.path()), Found::Nobody))
        .filter_map(|entry| {
            let name = entry.file_name();
            Some(name.to_str()?.strip_suffix(".sock")?.to_owned())
        })
        .collect();
    names.sort();
    Ok(names)
}

/// The least that the kernel takes for a limit; none would mean no limit.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Every clock page is a memfd whose name begins with this.
pub(crate) const PAGE_PREFIX: &str = "timeloom-page-";

/// The clock page of a program that was let go, in /proc/PID/maps.
pub(crate) const RELEASED_PAGE: &str = "timeloom-released";
