//! Objects with names: control groups, sockets, mounts, and files in the directories of a test.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::traces::names;
use crate::traces::processes::{numbers, open_files};

/// Directories in which root's sessions and daemons create sockets, and programs create shared
/// memory.
const MEETING_PLACES: [&str; 2] = ["/run/timeloom", "/dev/shm"];

/// Maximum depth of the search for control groups below a mount point.
const DEPTH: usize = 3;

/// Returns the control groups that contain the name of one of these sessions.
pub(crate) fn cgroups(sessions: &[String]) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let points = fields.filter(|it| it.get(2).is_some_and(|kind| kind.starts_with("cgroup")));
    let mut found = Vec::new();
    for point in points.filter_map(|it| it.get(1).copied()) {
        groups_below(Path::new(point), DEPTH, sessions, &mut found);
    }
    found
}

fn groups_below(directory: &Path, depth: usize, sessions: &[String], found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name();
        if has_name(&name.to_string_lossy(), sessions) {
            found.push(format!("control group {}", entry.path().display()));
        } else if depth > 1 {
            groups_below(&entry.path(), depth - 1, sessions, found);
        }
    }
}

fn has_name(text: &str, sessions: &[String]) -> bool {
    sessions.iter().any(|session| names(text, session))
}

/// Returns the bound sockets of these sessions, from the kernel's list and from their files; and
/// other files of these sessions in the shared directories.
pub(crate) fn sockets(sessions: &[String], places: &[PathBuf]) -> Vec<String> {
    let list = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    // The columns are Num RefCount Protocol Flags Type St Inode Path.
    let paths = list
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7));
    let is_own = |path: &&str| has_name(path, sessions) || is_below(path, places);
    let mut found: Vec<String> = paths
        .filter(is_own)
        .map(|path| format!("socket {path}"))
        .collect();
    for place in MEETING_PLACES {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if has_name(&entry.file_name().to_string_lossy(), sessions) {
                found.push(format!("file {}", entry.path().display()));
            }
        }
    }
    found
}

fn is_below(path: impl AsRef<Path>, places: &[PathBuf]) -> bool {
    let path = path.as_ref();
    places.iter().any(|place| path.starts_with(place))
}

/// Returns the sockets and pipes in these directories. In runs that are complete, also returns
/// files with temporary names and reserved space.
pub(crate) fn unfinished(places: &[PathBuf]) -> Vec<String> {
    let mut found = Vec::new();
    for place in places {
        unfinished_below(place, &mut found);
    }
    found
}

fn unfinished_below(directory: &Path, found: &mut Vec<String>) {
    // A run that was killed has such files until `timeloom report` completes it.
    let is_whole = !directory.join("journal").is_dir();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let name = entry.file_name();
        let mut ends = [".partial", ".reserve"].iter();
        let is_begun = ends.any(|end| name.to_string_lossy().ends_with(end));
        if kind.is_dir() {
            unfinished_below(&entry.path(), found);
        } else if kind.is_socket() || kind.is_fifo() || (kind.is_file() && is_begun && is_whole) {
            found.push(format!("file {}", entry.path().display()));
        }
    }
}

/// Returns the files in these directories that any process has open, including this process.
pub(crate) fn open(places: &[PathBuf]) -> Vec<String> {
    if places.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for pid in numbers("/proc") {
        let files = open_files(&pid.to_string()).into_iter();
        let own = files.filter(|(_, target)| is_below(target, places));
        found.extend(own.map(|(_, target)| format!("open in {pid}: {}", target.display())));
    }
    found
}

/// Returns all mounts, each with number, parent, device, root and mount point. Options are omitted,
/// because they may change.
pub(crate) fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let fields = |line: &str| line.split(' ').take(5).collect::<Vec<_>>().join(" ");
    text.lines().map(fields).collect()
}

/// Returns true if a line of mountinfo contains one of these session names, or a path below one of
/// these directories.
pub(crate) fn is_own(mount: &str, sessions: &[String], places: &[PathBuf]) -> bool {
    has_name(mount, sessions) || mount.split(' ').any(|field| is_below(field, places))
}
