//! How a session is found from outside: by the name of its clock page, which its
//! processes have mapped, and by that of its control socket.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::linux::processes;

/// Name of a clock page: `timeloom-page-SESSION.PID.NUMBER`, of which the
/// supervisor's PID and the number make it another one for every session that
/// ever had the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageName(String);

impl PageName {
    pub(crate) fn new(session: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!(
            "{PAGE_PREFIX}{session}.{}.{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        ))
    }

    pub(crate) fn to_c_string(&self) -> CString {
        CString::new(self.0.as_str()).expect("names have no zero byte")
    }

    /// The processes of the session: all that map the page but ourselves. The
    /// space ends the name in /proc/PID/maps.
    pub(crate) fn mapped_by(&self) -> Vec<i32> {
        processes::that_map(&format!("{} ", self.0))
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

    /// Whether the supervisor is another user's, so that we cannot see what it
    /// maps.
    pub(crate) fn has_hidden_supervisor(&self) -> bool {
        let pid = self.parts().nth(1).unwrap_or_default();
        fs::read_to_string(format!("/proc/{pid}/maps"))
            .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Session, PID, number: names of sessions have no dots.
    fn parts(&self) -> impl Iterator<Item = &str> {
        self.0
            .strip_prefix(PAGE_PREFIX)
            .unwrap_or_default()
            .split('.')
    }
}

/// A clock page in a process. The supervisor has it mapped for writing, guests
/// for reading.
pub(crate) struct MappedPage {
    pub(crate) name: PageName,
    pub(crate) writable: bool,
}

/// The clock pages that a process has mapped.
pub(crate) fn pages_of(pid: i32) -> Vec<MappedPage> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let page = |line: &str| {
        let name = &line[line.find(PAGE_PREFIX)?..];
        let name = PageName(name.split_ascii_whitespace().next()?.to_owned());
        Some(MappedPage {
            name,
            writable: line.split_ascii_whitespace().nth(1)?.contains('w'),
        })
    };
    maps.lines().filter_map(page).collect()
}

/// Where control sockets lie: a directory that only this user may enter.
pub fn runtime_directory() -> PathBuf {
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    if user == 0 {
        return "/run/timeloom".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => PathBuf::from(directory).join("timeloom"),
        None => std::env::temp_dir().join(format!("timeloom-{user}")),
    }
}

/// The socket of a session.
pub(crate) fn socket_path(session: &str) -> PathBuf {
    runtime_directory().join(format!("{session}.sock"))
}

/// Names of the sessions that answer.
pub fn list_sessions() -> Vec<String> {
    let Ok(entries) = fs::read_dir(runtime_directory()) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| UnixStream::connect(entry.path()).is_ok())
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".sock")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// Every clock page is a memfd whose name begins with this.
pub(crate) const PAGE_PREFIX: &str = "timeloom-page-";

/// The clock page of a program that was let go, in /proc/PID/maps.
pub(crate) const RELEASED_PAGE: &str = "timeloom-released";
