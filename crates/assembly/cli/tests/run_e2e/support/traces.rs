//! What a run consists of in the system: processes, a cgroup, a socket,
//! network namespaces, mounts.
//!
//! Other runs come and go at the same time, so nothing is counted. Processes
//! are known by an environment variable that all of them inherit, namespaces
//! by the cookie that the kernel never gives twice (their inodes it does).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The variable by which the processes of a run are known.
pub(crate) const MARK: &str = "TIMELOOM_TEST_MARK";

/// What has been seen of a run so far.
pub(crate) struct Traces {
    mounts: BTreeSet<String>,
    namespaces: BTreeSet<Namespace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Namespace {
    inode: u64,
    cookie: u64,
}

impl Traces {
    /// To be taken before the run: its namespaces are not this one's.
    pub(crate) fn before() -> Self {
        Self {
            mounts: mounts(),
            namespaces: BTreeSet::new(),
        }
    }

    /// Notes the namespaces that the run uses now.
    pub(crate) fn look(&mut self, mark: &str) {
        let known: BTreeSet<u64> = self.namespaces.iter().map(|known| known.inode).collect();
        let own = fs::metadata("/proc/self/ns/net").map_or(0, |own| own.ino());
        for pid in processes_of(mark) {
            for (inode, path) in namespaces_at(pid) {
                if inode != own
                    && !known.contains(&inode)
                    && let Some(cookie) = cookie(&path)
                {
                    self.namespaces.insert(Namespace { inode, cookie });
                }
            }
        }
    }

    /// What is there of the run, in words; nothing when it is gone.
    pub(crate) fn left(&self, mark: &str) -> Vec<String> {
        let mut left: Vec<String> = processes_of(mark)
            .into_iter()
            .map(|pid| format!("process {pid}: {}", describe(pid)))
            .collect();
        left.extend(cgroups(mark).iter().map(|path| path.display().to_string()));
        let socket = PathBuf::from(format!("/run/timeloom/{mark}.sock"));
        left.extend(socket.exists().then(|| socket.display().to_string()));
        let inodes: BTreeSet<u64> = self.namespaces.iter().map(|known| known.inode).collect();
        left.extend(
            mounts()
                .difference(&self.mounts)
                .filter(|text| ours(text, &inodes))
                .cloned(),
        );
        for pid in numbers("/proc") {
            for (inode, path) in namespaces_at(pid) {
                let alive = inodes.contains(&inode)
                    && cookie(&path).is_some_and(|cookie| {
                        self.namespaces.contains(&Namespace { inode, cookie })
                    });
                if alive {
                    left.push(format!("namespace {inode} at {}", path.display()));
                }
            }
        }
        left
    }

    /// How many network namespaces the run was seen to use.
    pub(crate) fn namespaces(&self) -> usize {
        self.namespaces.len()
    }
}

/// The living processes that carry the mark. (A zombie has no environment.)
pub(crate) fn processes_of(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let carries = |pid: &i32| {
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    };
    numbers("/proc").into_iter().filter(carries).collect()
}

/// Its command line and state: `D (frozen)` would be a program left frozen.
fn describe(pid: i32) -> String {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find(|line| line.starts_with("State:"));
    format!(
        "{} {}",
        String::from_utf8_lossy(&arguments).replace('\0', " "),
        state.unwrap_or_default()
    )
}

fn numbers(path: &str) -> Vec<i32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The network namespaces that a process is in or holds open.
fn namespaces_at(pid: i32) -> Vec<(u64, PathBuf)> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let paths = descriptors
        .map(|entry| entry.path())
        .chain([format!("/proc/{pid}/ns/net").into()]);
    let of = |path: PathBuf| {
        let target = fs::read_link(&path).ok()?;
        let number = target.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?;
        Some((number.parse().ok()?, path))
    };
    paths.filter_map(of).collect()
}

/// The kernel's own number of a network namespace, as a socket in it tells.
fn cookie(path: &Path) -> Option<u64> {
    let namespace = File::open(path).ok()?;
    // In a thread of its own, which is then in the wrong place for anything.
    let ask = move || {
        let mut cookie = 0u64;
        let mut length = size_of_val(&cookie) as libc::socklen_t;
        // SAFETY: descriptors that are open, and a buffer of the stated length.
        unsafe {
            if libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) != 0 {
                return None;
            }
            let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            let into = (&raw mut cookie).cast();
            let done = libc::getsockopt(
                socket,
                libc::SOL_SOCKET,
                SO_NETNS_COOKIE,
                into,
                &raw mut length,
            );
            libc::close(socket);
            (done == 0).then_some(cookie)
        }
    };
    std::thread::spawn(ask).join().ok()?
}

/// Not in the libc crate for every target.
const SO_NETNS_COOKIE: i32 = 71;

fn cgroups(mark: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let at = |point: &str| {
        let names = [
            format!("timeloom.{mark}"),
            format!("timeloom.{mark}.helpers"),
        ];
        names.map(|name| Path::new(point).join(name))
    };
    points.flat_map(at).filter(|path| path.exists()).collect()
}

fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A mount that a run could have made. The machine may get others meanwhile,
/// and others may name namespaces of theirs; those of the run are known.
fn ours(mount: &str, inodes: &BTreeSet<u64>) -> bool {
    let namespace = mount.split(' ').find_map(|field| {
        let number = field.strip_prefix("net:[")?.strip_suffix(']')?;
        number.parse::<u64>().ok()
    });
    match namespace {
        Some(inode) => inodes.contains(&inode),
        None => ["timeloom", "/tmp"].iter().any(|word| mount.contains(word)),
    }
}
