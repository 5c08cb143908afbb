//! Stopping and continuing the processes of a session.
//!
//! The clock stands from the store into the clock page on; stopping the
//! processes keeps them from doing in no time what takes time. Two ways:
//!
//! - the cgroup v2 **freezer**: one write stops everything in the group, also
//!   what is just being forked, and no process can see it. Needs root.
//! - **signals**: SIGSTOP and SIGCONT to each process. A parent may notice
//!   (SIGCHLD, WUNTRACED), hence the second choice.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::GuestError;
use crate::leftovers::PageName;
use crate::processes;

/// How the processes of a session are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezeKind {
    /// By the cgroup v2 freezer.
    Cgroup,
    /// By SIGSTOP and SIGCONT.
    Signals,
}

pub(crate) enum Freezer {
    Cgroup(CgroupFreezer),
    Signals(SignalFreezer),
}

impl Freezer {
    /// The best that this process may use. `session` names the cgroup; by
    /// `page` the session's processes are known.
    ///
    /// # Errors
    /// There is a cgroup of this name already. (Signals would do without, but
    /// whoever removes one session's cgroup would end the other's programs.)
    pub(crate) fn new(session: &str, page: &PageName) -> Result<Self, GuestError> {
        match CgroupFreezer::new(session) {
            Ok(freezer) => Ok(Self::Cgroup(freezer)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(GuestError::Usage(format!(
                    "a session named `{session}` is already running, or was killed and has left its cgroup \
                 (`timeloom clean` removes that)"
                )))
            }
            Err(_) => Ok(Self::Signals(SignalFreezer::new(page))),
        }
    }

    pub(crate) fn kind(&self) -> FreezeKind {
        match self {
            Self::Cgroup(_) => FreezeKind::Cgroup,
            Self::Signals(_) => FreezeKind::Signals,
        }
    }

    /// The cgroup, if there is one.
    pub(crate) fn cgroup(&self) -> Option<&Path> {
        match self {
            Self::Cgroup(freezer) => Some(&freezer.directory),
            Self::Signals(_) => None,
        }
    }

    /// Takes a process in, which must be stopped at the moment; while the
    /// session is paused it will not go on before [`Self::thaw`].
    pub(crate) fn adopt(&self, pid: i32) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer) => {
                fs::write(freezer.directory.join("cgroup.procs"), pid.to_string()).map_err(
                    GuestError::system(format!("taking process {pid} into the session's cgroup")),
                )
            }
            Self::Signals(freezer) => {
                freezer.adopt(pid);
                Ok(())
            }
        }
    }

    /// To be called for a process that is about to be released by a tracer,
    /// under which it has missed what we do by signal.
    pub(crate) fn keep_stopped(&self, pid: i32) -> Result<(), GuestError> {
        if let Self::Signals(freezer) = self {
            freezer.adopt(pid);
        }
        Ok(())
    }

    /// Puts a process out of the session, to the cgroup `home` where it was before.
    pub(crate) fn let_go(&self, pid: i32, home: Option<&Path>) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer) => {
                // Gone meanwhile, or never known: where everything begins.
                let mount = freezer.directory.parent().unwrap_or(Path::new("/"));
                let enter =
                    |directory: &Path| fs::write(directory.join("cgroup.procs"), pid.to_string());
                home.map_or(Err(io::ErrorKind::NotFound.into()), enter)
                    .or_else(|_| enter(mount))
                    .map_err(GuestError::system(format!(
                        "taking process {pid} out of the session's cgroup"
                    )))
            }
            Self::Signals(freezer) => {
                freezer.let_go(pid);
                Ok(())
            }
        }
    }

    /// All processes of the session.
    pub(crate) fn processes(&self) -> Vec<i32> {
        match self {
            Self::Cgroup(freezer) => freezer.processes(),
            Self::Signals(freezer) => freezer.processes(),
        }
    }

    /// Stops all; returns when all stand, or with an error after `patience`.
    pub(crate) fn freeze(&self, patience: Duration) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer) => freezer.freeze(patience),
            Self::Signals(freezer) => freezer.freeze(patience),
        }
    }

    /// Lets all go on.
    pub(crate) fn thaw(&self) -> Result<(), GuestError> {
        match self {
            Self::Cgroup(freezer) => freezer.thaw(),
            Self::Signals(freezer) => {
                freezer.thaw();
                Ok(())
            }
        }
    }

    /// Ends everything in the session and removes what the freezer made. (Not
    /// left to `drop`: threads that serve the session's last processes may hold
    /// the freezer for longer than our own process lives.)
    pub(crate) fn remove(&self) {
        self.kill_all();
        if let Self::Cgroup(freezer) = self {
            freezer.remove();
        }
    }

    /// Kills everything in the session, frozen or not.
    pub(crate) fn kill_all(&self) {
        match self {
            Self::Cgroup(freezer) => {
                let _ = fs::write(freezer.directory.join("cgroup.kill"), "1");
            }
            Self::Signals(freezer) => {
                for pid in freezer.processes() {
                    // SAFETY: a process of our own session.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                }
                freezer.thaw();
            }
        }
    }
}

/// A cgroup of our own with its control files open.
pub(crate) struct CgroupFreezer {
    /// It is not ours any more: another session may have one of this name.
    removed: AtomicBool,
    directory: PathBuf,
    control: File,
    events: File,
}

impl CgroupFreezer {
    fn new(session: &str) -> io::Result<Self> {
        let mount = cgroup2_mount().ok_or(io::ErrorKind::Unsupported)?;
        let directory = mount.join(format!("{CGROUP_PREFIX}{session}"));
        fs::create_dir(&directory)?;
        let control = OpenOptions::new()
            .write(true)
            .open(directory.join("cgroup.freeze"));
        let events = File::open(directory.join("cgroup.events"));
        match (control, events) {
            (Ok(control), Ok(events)) => Ok(Self {
                removed: AtomicBool::new(false),
                directory,
                control,
                events,
            }),
            (Err(error), _) | (_, Err(error)) => {
                let _ = fs::remove_dir(&directory);
                Err(error)
            }
        }
    }

    fn remove(&self) {
        if !self.removed.swap(true, Ordering::SeqCst) {
            remove_cgroup(&self.directory);
        }
    }

    fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn freeze(&self, patience: Duration) -> Result<(), GuestError> {
        let failed = || GuestError::system(format!("freezing {}", self.directory.display()));
        self.control.write_all_at(b"1", 0).map_err(failed())?;
        let begun = Instant::now();
        // Read, not polled for: the kernel limits the notification to one per
        // 10 ms, and the state is mostly there at the first look.
        for attempt in 0u32.. {
            let mut text = [0u8; 128];
            let length = self.events.read_at(&mut text, 0).map_err(failed())?;
            if text[..length]
                .windows(8)
                .any(|window| window == b"frozen 1")
            {
                break;
            }
            if begun.elapsed() > patience {
                return Err(GuestError::Unsupported(format!(
                    "a process in {} could not be stopped within {patience:?} (is it stuck in the kernel?)",
                    self.directory.display()
                )));
            }
            // Busy processes stop when they are scheduled next: give way.
            if attempt > 3 {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn thaw(&self) -> Result<(), GuestError> {
        let doing = format!("thawing {}", self.directory.display());
        // The kernel wakes the processes one by one, and the first that is busy
        // would take this processor from us: the rest would stand for some 30 ms
        // while their clock runs.
        let _ahead = AheadOfGuests::new();
        self.control
            .write_all_at(b"0", 0)
            .map_err(GuestError::system(doing))
    }
}

impl Drop for CgroupFreezer {
    fn drop(&mut self) {
        self.remove();
    }
}

/// While it exists, the calling thread is scheduled before all processes of a
/// session. Where that is not allowed, it has no effect.
struct AheadOfGuests {
    usual_policy: Option<i32>,
}

impl AheadOfGuests {
    fn new() -> Self {
        let first = libc::sched_param { sched_priority: 1 };
        // SAFETY: concerns this thread only; reads `first`.
        let usual_policy = unsafe {
            let policy = libc::sched_getscheduler(0);
            // Who runs under another policy has a reason for it.
            let usual = policy == libc::SCHED_OTHER || policy == libc::SCHED_BATCH;
            (usual && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) == 0)
                .then_some(policy)
        };
        Self { usual_policy }
    }
}

impl Drop for AheadOfGuests {
    fn drop(&mut self) {
        if let Some(policy) = self.usual_policy {
            let none = libc::sched_param { sched_priority: 0 };
            // SAFETY: as above. Giving a priority up needs no privilege.
            unsafe { libc::sched_setscheduler(0, policy, &raw const none) };
        }
    }
}

/// Kills what is left in a cgroup of ours and removes it.
pub(crate) fn remove_cgroup(directory: &Path) {
    let _ = fs::write(directory.join("cgroup.kill"), "1");
    for _ in 0..200 {
        if fs::remove_dir(directory).is_ok() || !directory.exists() {
            return;
        }
        // The killed leave the group when their parent, or we, reap them.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What was stopped by signal, to be continued.
pub(crate) struct SignalFreezer {
    /// The session's clock page, by which its processes are known.
    page: PageName,
    /// `Some` while the session is paused: what was stopped, to be continued.
    stopped: Mutex<Option<Vec<i32>>>,
}

impl SignalFreezer {
    fn new(page: &PageName) -> Self {
        Self {
            page: page.clone(),
            stopped: Mutex::default(),
        }
    }

    fn processes(&self) -> Vec<i32> {
        self.page.mapped_by()
    }

    fn adopt(&self, pid: i32) {
        if let Some(stopped) = self.lock().as_mut() {
            // SAFETY: a process of our own session.
            unsafe { libc::kill(pid, libc::SIGSTOP) };
            if !stopped.contains(&pid) {
                stopped.push(pid);
            }
        }
    }

    fn let_go(&self, pid: i32) {
        if let Some(stopped) = self.lock().as_mut()
            && let Some(index) = stopped.iter().position(|&other| other == pid)
        {
            stopped.swap_remove(index);
            // SAFETY: a process of our own session.
            unsafe { libc::kill(pid, libc::SIGCONT) };
        }
    }

    fn freeze(&self, patience: Duration) -> Result<(), GuestError> {
        let begun = Instant::now();
        let mut guard = self.lock();
        let stopped = guard.get_or_insert_default();
        // Again until no new process is seen: one may fork while we look.
        loop {
            let fresh: Vec<i32> = self
                .processes()
                .into_iter()
                .filter(|pid| !stopped.contains(pid))
                .collect();
            if fresh.is_empty() {
                return Ok(());
            }
            for &pid in &fresh {
                // SAFETY: a process of our own session.
                unsafe { libc::kill(pid, libc::SIGSTOP) };
            }
            stopped.extend(&fresh);
            for &pid in &fresh {
                let mut asked = Instant::now();
                while !is_stopped(pid) {
                    // Again: the first may have gone to a thread that we follow
                    // through an exec, where it stops nobody else.
                    if asked.elapsed() > ASK_AGAIN {
                        // SAFETY: a process of our own session.
                        unsafe { libc::kill(pid, libc::SIGSTOP) };
                        asked = Instant::now();
                    }
                    if begun.elapsed() > patience {
                        return Err(GuestError::Unsupported(format!(
                            "process {pid} ({}) could not be stopped within {patience:?}",
                            processes::name(pid)
                        )));
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    fn thaw(&self) {
        for pid in self.lock().take().unwrap_or_default() {
            // SAFETY: a process of our own session.
            unsafe { libc::kill(pid, libc::SIGCONT) };
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<i32>>> {
        self.stopped.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Whether every thread is stopped, by signal or by a tracer, or not there any
/// more.
///
/// A thread that waits for its `vfork` child takes no signal until that child
/// executes or ends; the child is of the session and stopped, so it stands too.
fn is_stopped(pid: i32) -> bool {
    processes::threads(pid)
        .into_iter()
        .all(|thread| match processes::state(thread) {
            None | Some('T' | 't' | 'Z' | 'X') => true,
            Some('D') => processes::waits_for_vfork_child(thread),
            Some(_) => false,
        })
}

/// The cgroup that a process is in now.
pub(crate) fn cgroup_of(pid: i32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(cgroup2_mount()?.join(path))
}

/// Where the cgroup v2 hierarchy is mounted, if it is.
pub fn cgroup2_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right
            .starts_with("cgroup2 ")
            .then(|| left.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// When a process that does not stop is sent the signal once more.
const ASK_AGAIN: Duration = Duration::from_millis(2);
/// Every cgroup of ours begins with this.
pub(crate) const CGROUP_PREFIX: &str = "timeloom.";
