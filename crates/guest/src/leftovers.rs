//! What a killed supervisor leaves behind, and who removes it.
//!
//! A session leaves things outside its own process: programs that may be
//! frozen, a cgroup, a control socket. A **keeper**, a child that does nothing
//! but wait for the supervisor's end, removes them when that end was not an
//! orderly one. Should the keeper be killed too, `timeloom clean` finds all of
//! it again: the cgroup and the socket carry the session's name, and the
//! programs have the session's clock page mapped.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::control::{runtime_directory, socket_path};
use crate::error::{GuestError, check};
use crate::freeze::{CGROUP_PREFIX, Freezer, PAGE_PREFIX, cgroup2_mount, remove_cgroup};
use crate::processes;

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
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let name_of = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);

    for path in entries(&runtime_directory()) {
        if path.extension().is_some_and(|ext| ext == "sock") && UnixStream::connect(&path).is_err() {
            let _ = fs::remove_file(&path);
            found.sockets.push(path);
        }
    }
    let living = crate::control::list_sessions();
    for path in cgroup2_mount().iter().flat_map(|mount| entries(mount)) {
        let session = name_of(&path).and_then(|name| name.strip_prefix(CGROUP_PREFIX).map(str::to_owned));
        if session.is_some_and(|session| !living.contains(&session)) {
            found.processes.extend(pids_in(&path));
            remove_cgroup(&path);
            found.cgroups.push(path);
        }
    }
    for pid in processes::that_map(PAGE_PREFIX) {
        let session = session_of(pid);
        if session.is_some_and(|session| !living.contains(&session)) {
            // SAFETY: a program of a session that nobody supervises any more.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            if !found.processes.contains(&pid) {
                found.processes.push(pid);
            }
        }
    }
    found
}

fn pids_in(cgroup: &Path) -> Vec<i32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The session whose clock page a process has mapped, unless it is the
/// supervisor, which has it mapped for writing.
fn session_of(pid: i32) -> Option<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let line = maps.lines().find(|line| line.contains(PAGE_PREFIX))?;
    if line.split_ascii_whitespace().nth(1)?.contains('w') {
        return None;
    }
    let name = &line[line.find(PAGE_PREFIX)? + PAGE_PREFIX.len()..];
    Some(name.split_ascii_whitespace().next()?.to_owned())
}

/// The child that waits for the supervisor's end.
pub(crate) struct Keeper {
    pid: i32,
    /// Closed by the kernel when we die, however we die.
    line: Option<fs::File>,
}

impl Keeper {
    pub(crate) fn start(session: &str, freezer: &Freezer) -> Result<Self, GuestError> {
        let cgroup = freezer.cgroup().map(Path::to_owned);
        let socket = socket_path(session);
        let page = format!("{PAGE_PREFIX}{session}");
        let mut fds = [0; 2];
        // SAFETY: writes two descriptors.
        check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into(), "making a pipe")?;
        // SAFETY: just created and owned by nobody else.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        // SAFETY: the child uses what exists already; glibc makes its
        // allocator usable in the child of a process with threads.
        let pid = check(unsafe { libc::fork() }.into(), "forking the keeper")? as i32;
        if pid == 0 {
            drop(write);
            keep(read.into(), cgroup.as_deref(), &socket, &page);
        }
        Ok(Self { pid, line: Some(write.into()) })
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

fn keep(mut line: fs::File, cgroup: Option<&Path>, socket: &Path, page: &str) -> ! {
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
        for pid in processes::that_map(page) {
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
