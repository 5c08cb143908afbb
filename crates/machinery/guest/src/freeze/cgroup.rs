//! Stopping by the cgroup v2 freezer. There is one group for the session and, in it, one for each
//! host that has processes or is held. The kernel stops a group if it or an ancestor is frozen, so
//! pauses of a host and of the session may overlap in any order.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::error::GuestError;
use crate::linux::spare::with_spare;

/// Cgroup of a session, with the groups of its hosts.
pub(crate) struct CgroupFreezer {
    /// True if the cgroup was removed. Another session may now have one of the same name.
    removed: AtomicBool,
    whole: Group,
    /// File `cgroup.stat` of the group, held open.
    counts: File,
    hosts: Mutex<BTreeMap<usize, Arc<HostGroup>>>,
    /// Number of groups that were created for helpers.
    helpers: Mutex<usize>,
}

/// Cgroup of a host.
struct HostGroup {
    group: Group,
    /// True if this group itself is frozen, not only the session's.
    held: AtomicBool,
}

impl CgroupFreezer {
    pub(super) fn new(session: &str) -> io::Result<Self> {
        let mount = timeloom_sys::cgroup::mount().ok_or(io::ErrorKind::Unsupported)?;
        let whole = Group::new(mount.join(format!("{CGROUP_PREFIX}{session}")))?;
        // This process holds the lock until it ends or removes the group: see `is_supervised`.
        let _ = fcntl_lock(&whole.control, FlockOperation::NonBlockingLockExclusive);
        Ok(Self {
            removed: AtomicBool::new(false),
            counts: File::open(whole.directory.join("cgroup.stat"))?,
            whole,
            hosts: Mutex::default(),
            helpers: Mutex::default(),
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.whole.directory
    }

    pub(super) fn host_directory(&self, host: usize) -> Result<PathBuf, GuestError> {
        Ok(self.group(host)?.group.directory.clone())
    }

    pub(super) fn adopt(&self, pid: i32, host: usize) -> Result<(), GuestError> {
        let group = self.group(host)?;
        group.group.enter(pid).map_err(GuestError::system(format!(
            "taking process {pid} into the session's cgroup"
        )))
    }

    /// Removes a process from the session. It returns to the cgroup `home`, in which it was before.
    pub(super) fn let_go(&self, pid: i32, home: Option<&Path>) -> Result<(), GuestError> {
        // If `home` was removed or was never known, the process moves to the root of the hierarchy.
        let mount = self.directory().parent().unwrap_or(Path::new("/"));
        home.map_or(Err(io::ErrorKind::NotFound.into()), |home| enter(home, pid))
            .or_else(|_| enter(mount, pid))
            .map_err(GuestError::system(format!(
                "taking process {pid} out of the session's cgroup"
            )))
    }

    pub(super) fn processes(&self) -> Vec<i32> {
        let hosts = self.lock();
        hosts.values().flat_map(|it| it.group.processes()).collect()
    }

    /// Returns a complete list of the processes, each with the number of its host.
    pub(super) fn list_with_hosts(&self) -> Result<Vec<(usize, i32)>, GuestError> {
        let mut all = Vec::new();
        for (&index, host) in &*self.lock() {
            let pids = host.group.try_processes()?;
            all.extend(pids.into_iter().map(|pid| (index, pid)));
        }
        Ok(all)
    }

    pub(super) fn processes_of(&self, host: usize) -> Vec<i32> {
        let hosts = self.lock();
        let group = hosts.get(&host);
        group.map_or_else(Vec::new, |it| it.group.processes())
    }

    pub(super) fn processes_not_held(&self) -> Result<Vec<i32>, GuestError> {
        let mut all = Vec::new();
        let hosts = self.lock();
        for host in hosts.values().filter(|it| !it.held.load(Ordering::SeqCst)) {
            all.extend(host.group.try_processes()?);
        }
        Ok(all)
    }

    /// Freezes the session. A process that another program has moved out of the groups does not
    /// stop; if that program has removed the group as well, an error is returned.
    pub(super) fn freeze(&self, patience: Duration) -> Result<(), GuestError> {
        self.whole.freeze(patience)?;
        let known = self.lock().len();
        let looking = format!("looking at {}", self.directory().display());
        let there = descendants(&self.counts).map_err(GuestError::system(looking))?;
        if there < known {
            return Err(GuestError::Unsupported(format!(
                "another program has removed {} of the {known} cgroups in {}",
                known - there,
                self.directory().display()
            )));
        }
        Ok(())
    }

    pub(super) fn thaw(&self) -> Result<(), GuestError> {
        self.whole.thaw()
    }

    /// Freezes the processes of one host, like [`Self::freeze`].
    pub(super) fn freeze_host(&self, host: usize, patience: Duration) -> Result<(), GuestError> {
        let host = self.group(host)?;
        host.held.store(true, Ordering::SeqCst);
        host.group.freeze(patience)
    }

    pub(super) fn thaw_host(&self, host: usize) -> Result<(), GuestError> {
        let host = self.group(host)?;
        host.held.store(false, Ordering::SeqCst);
        host.group.thaw()
    }

    /// Creates a group for a process that works for the session and is never stopped. The group is
    /// outside the session's own group.
    pub(super) fn helper(&self) -> io::Result<PathBuf> {
        let mut count = self.helpers.lock();
        let all = helpers_of(self.directory());
        if *count == 0 {
            // The group may be a leftover of a dead session of the same name.
            remove_cgroup(&all);
            fs::create_dir(&all)?;
        }
        *count += 1;
        let directory = all.join(format!("{HELPER_PREFIX}{count}"));
        fs::create_dir(&directory)?;
        Ok(directory)
    }

    pub(super) fn kill_all(&self) {
        let _ = with_spare(|| fs::write(self.directory().join("cgroup.kill"), "1"));
    }

    pub(super) fn remove(&self) {
        if !self.removed.swap(true, Ordering::SeqCst) {
            remove_session(self.directory());
        }
    }

    /// Returns the group of the host with this number. It is created when it is first needed, since
    /// most hosts of a large network have no processes.
    fn group(&self, host: usize) -> Result<Arc<HostGroup>, GuestError> {
        let mut hosts = self.lock();
        if let Some(there) = hosts.get(&host) {
            return Ok(Arc::clone(there));
        }
        let directory = self.directory().join(format!("{HOST_PREFIX}{host}"));
        let making = format!("making {}", directory.display());
        let made = Arc::new(HostGroup {
            group: Group::new(directory).map_err(GuestError::system(making))?,
            held: AtomicBool::new(false),
        });
        hosts.insert(host, Arc::clone(&made));
        Ok(made)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<HostGroup>>> {
        self.hosts.lock()
    }
}

impl Drop for CgroupFreezer {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Cgroup that this process has created, with its control files open.
struct Group {
    directory: PathBuf,
    control: File,
    events: File,
}

impl Group {
    fn new(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir(&directory)?;
        let control = OpenOptions::new()
            .write(true)
            .open(directory.join("cgroup.freeze"));
        let events = File::open(directory.join("cgroup.events"));
        match (control, events) {
            (Ok(control), Ok(events)) => Ok(Self {
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

    fn enter(&self, pid: i32) -> io::Result<()> {
        enter(&self.directory, pid)
    }

    fn processes(&self) -> Vec<i32> {
        pids_in(&self.directory)
    }

    fn try_processes(&self) -> Result<Vec<i32>, GuestError> {
        try_pids_in(&self.directory).map_err(|error| {
            let listing = self.directory.display();
            GuestError::system(format!("listing the processes in {listing}"))(error)
        })
    }

    fn freeze(&self, patience: Duration) -> Result<(), GuestError> {
        let failed = || GuestError::system(format!("freezing {}", self.directory.display()));
        self.control.write_all_at(b"1", 0).map_err(failed())?;
        // If the directory was removed, the files stay open; the writes then stop no process.
        let begun = Instant::now();
        // The file is read repeatedly, not polled for events: the kernel limits the notification to
        // one per 10 ms, and the group is usually frozen at the first read.
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
                    "a process in {} could not be stopped within {} (is it stuck in the kernel?)",
                    self.directory.display(),
                    timeloom_time::Duration::from(patience)
                )));
            }
            // Busy processes stop when the kernel next schedules them, so this thread yields.
            if attempt > 3 {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn thaw(&self) -> Result<(), GuestError> {
        let doing = format!("thawing {}", self.directory.display());
        // The kernel resumes the processes one by one, and the first busy one would take this
        // processor. The others would then remain stopped for some 30 ms while their clock runs.
        let _ahead = AheadOfGuests::new();
        self.control
            .write_all_at(b"0", 0)
            .map_err(GuestError::system(doing))
    }
}

/// Guard that schedules the calling thread before all processes of a session. It has no effect if
/// that is not permitted.
struct AheadOfGuests {
    usual_policy: Option<i32>,
}

impl AheadOfGuests {
    fn new() -> Self {
        let first = libc::sched_param { sched_priority: 1 };
        // SAFETY: the calls concern only this thread, and read `first`.
        let usual_policy = unsafe {
            let policy = libc::sched_getscheduler(0);
            // If the thread has another policy, it was set on purpose.
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
            // SAFETY: the same as above. Lowering the priority needs no privilege.
            unsafe { libc::sched_setscheduler(0, policy, &raw const none) };
        }
    }
}

/// Returns the number of descendants of a group, read from its `cgroup.stat`.
fn descendants(counts: &File) -> io::Result<usize> {
    let mut text = [0u8; 512];
    let length = counts.read_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text[..length]);
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("nr_descendants "));
    let count = count.and_then(|count| count.trim().parse().ok());
    count.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn enter(directory: &Path, pid: i32) -> io::Result<()> {
    fs::write(directory.join("cgroup.procs"), pid.to_string())
}

/// Returns the processes in a session's cgroup and in its descendants.
pub(crate) fn pids_below(directory: &Path) -> Vec<i32> {
    let parts = groups_in(directory);
    let all = parts.iter().map(PathBuf::as_path).chain([directory]);
    all.flat_map(pids_in).collect()
}

fn pids_in(directory: &Path) -> Vec<i32> {
    try_pids_in(directory).unwrap_or_default()
}

fn try_pids_in(directory: &Path) -> io::Result<Vec<i32>> {
    let text = with_spare(|| fs::read_to_string(directory.join("cgroup.procs")))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn groups_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let ours = |name: &str| name.starts_with(HOST_PREFIX) || name.starts_with(HELPER_PREFIX);
        name.is_some_and(ours) && path.is_dir()
    };
    entries.map(|entry| entry.path()).filter(is_one).collect()
}

/// Removes all cgroups of a session, as [`remove_cgroup`] does.
pub(crate) fn remove_session(directory: &Path) {
    remove_cgroup(directory);
    remove_cgroup(&helpers_of(directory));
}

/// Returns the path of the group that contains the helpers' groups. It is outside the session's own
/// group, which is frozen while the helpers work.
fn helpers_of(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(HELPERS_SUFFIX);
    name.into()
}

/// Kills the remaining processes in a session's cgroup and removes the cgroup.
pub(crate) fn remove_cgroup(directory: &Path) {
    let _ = fs::write(directory.join("cgroup.kill"), "1");
    for _ in 0..200 {
        for part in groups_in(directory) {
            let _ = fs::remove_dir(part);
        }
        if fs::remove_dir(directory).is_ok() || !directory.exists() {
            return;
        }
        // A killed process leaves the group when its parent, or this process, has reaped it.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if a process holds the lock that marks it as the supervisor of this cgroup's
/// session. The lock belongs to a process (fcntl(2)): it ends with its holder, children do not
/// inherit it, and it is visible wherever the cgroup is, also in other PID namespaces.
///
/// Call this only for cgroups of other processes: a process does not see its own lock, and would
/// lose it.
pub(crate) fn is_supervised(directory: &Path) -> bool {
    let control = directory.join("cgroup.freeze");
    let opened = with_spare(|| OpenOptions::new().write(true).open(&control));
    let Ok(control) = opened else {
        return false;
    };
    let taken = fcntl_lock(&control, FlockOperation::NonBlockingLockExclusive);
    matches!(taken, Err(Errno::AGAIN | Errno::ACCESS))
}

/// Prefix of the name of every session's cgroup.
pub(crate) const CGROUP_PREFIX: &str = "timeloom.";

/// Suffix of the group that contains helpers' groups. (Names of sessions contain no point.)
pub(crate) const HELPERS_SUFFIX: &str = ".helpers";

const HELPER_PREFIX: &str = "helper-";

/// Prefix of the name of a host's group; its number follows, since names of hosts may contain any
/// character.
const HOST_PREFIX: &str = "host-";
