//! What a killed supervisor leaves behind, and who removes it.
//!
//! A session leaves things outside its own process: programs that may be
//! frozen, a cgroup, a control socket. A **keeper**, a child that does nothing
//! but wait for the supervisor's end, removes them when that end was not an
//! orderly one. Should the keeper be killed too, `timeloom clean` finds all of
//! it again: the cgroup and the socket carry the session's name, and the
//! programs have the session's clock page mapped.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::control::{runtime_directory, socket_path};
use crate::error::{GuestError, check};
use crate::freeze::{CGROUP_PREFIX, Freezer, cgroup2_mount, pids_below, remove_cgroup};
use crate::linux::processes;

/// What was found and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Programs that were ended.
    pub processes: Vec<i32>,
    /// Cgroups that were removed.
    pub cgroups: Vec<PathBuf>,
    /// Control sockets that were removed.
    pub sockets: Vec<PathBuf>,
}

/// Removes what sessions without a living supervisor left behind.
pub fn clean() -> Leftovers {
    let mut found = Leftovers::default();
    let entries = |path: &Path| {
        fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    // What is there first, who lives second: a session that begins meanwhile is
    // then not taken for dead.
    let sockets: Vec<PathBuf> = entries(&runtime_directory()).collect();
    let cgroups: Vec<PathBuf> = cgroup2_mount()
        .iter()
        .flat_map(|mount| entries(mount))
        .collect();
    let guests = processes::that_map(PAGE_PREFIX);
    let mut living = crate::control::list_sessions();
    let pages = supervised_pages();
    living.extend(pages.iter().map(|page| page.session().to_owned()));

    for path in sockets {
        let session = name_between(&path, "", ".sock");
        if session.is_some_and(|session| !living.contains(&session)) {
            let _ = fs::remove_file(&path);
            found.sockets.push(path);
        }
    }
    for path in cgroups {
        let session = name_between(&path, CGROUP_PREFIX, "");
        if session.is_some_and(|session| !living.contains(&session)) {
            found.processes.extend(pids_below(&path));
            remove_cgroup(&path);
            found.cgroups.push(path);
        }
    }
    for pid in guests {
        let page = pages_of(pid)
            .into_iter()
            .find(|page| !page.writable)
            .map(|page| page.name);
        if page.is_some_and(|page| !pages.contains(&page) && !page.has_hidden_supervisor()) {
            // SAFETY: a program of a session that nobody supervises any more.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            if !found.processes.contains(&pid) {
                found.processes.push(pid);
            }
        }
    }
    found
}

fn name_between(path: &Path, prefix: &str, suffix: &str) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix(prefix)?.strip_suffix(suffix)?.to_owned())
}

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

    fn session(&self) -> &str {
        self.parts().next().unwrap_or_default()
    }

    /// Whether the supervisor is another user's, so that we cannot see what it
    /// maps.
    fn has_hidden_supervisor(&self) -> bool {
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
struct MappedPage {
    name: PageName,
    writable: bool,
}

fn pages_of(pid: i32) -> Vec<MappedPage> {
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

/// The pages that living supervisors write.
fn supervised_pages() -> Vec<PageName> {
    let pages = processes::all().into_iter().flat_map(pages_of);
    pages
        .filter(|page| page.writable)
        .map(|page| page.name)
        .collect()
}

/// Every clock page is a memfd whose name begins with this.
const PAGE_PREFIX: &str = "timeloom-page-";

/// The child that waits for the supervisor's end.
pub(crate) struct Keeper {
    pid: i32,
    /// Closed by the kernel when we die, however we die.
    line: Option<fs::File>,
}

impl Keeper {
    pub(crate) fn start(
        session: &str,
        freezer: &Freezer,
        page: PageName,
    ) -> Result<Self, GuestError> {
        let cgroup = freezer.cgroup().map(Path::to_owned);
        let socket = socket_path(session);
        let mut fds = [0; 2];
        check(
            // SAFETY: writes two descriptors.
            unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into(),
            "making a pipe",
        )?;
        // SAFETY: just created and owned by nobody else.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        // SAFETY: the child uses what exists already; glibc makes its
        // allocator usable in the child of a process with threads.
        let pid = check(unsafe { libc::fork() }.into(), "forking the keeper")? as i32;
        if pid == 0 {
            drop(write);
            keep(read.into(), cgroup.as_deref(), &socket, &page);
        }
        Ok(Self {
            pid,
            line: Some(write.into()),
        })
    }

    /// An orderly end: there is nothing left to remove.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut line) = self.line.take() {
            let _ = line.write_all(b"q");
            drop(line);
            // SAFETY: our own child.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL) };
        }
    }
}

impl Drop for Keeper {
    /// A session that could not be made leaves nothing either, and the keeper
    /// must not take its supervisor for one of its programs.
    fn drop(&mut self) {
        self.dismiss();
    }
}

fn keep(mut line: fs::File, cgroup: Option<&Path>, socket: &Path, page: &PageName) -> ! {
    // SAFETY: calls without memory; a terminal's Ctrl-C is not for us, and
    // descriptors of ours must not keep others' pipes open.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"timeloom-keeper".as_ptr());
        let own = std::os::fd::AsRawFd::as_raw_fd(&line) as u32;
        libc::syscall(libc::SYS_close_range, 0, own - 1, 0);
        libc::syscall(libc::SYS_close_range, own + 1, u32::MAX, 0);
    }
    let mut word = [0u8; 1];
    let orderly = matches!(line.read(&mut word), Ok(1));
    if !orderly {
        for pid in page.mapped_by() {
            // SAFETY: a program of the session whose supervisor has died.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        if let Some(cgroup) = cgroup {
            remove_cgroup(cgroup);
        }
        let _ = fs::remove_file(socket);
    }
    // SAFETY: ends the child without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}
