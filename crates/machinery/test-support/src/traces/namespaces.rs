//! Network and mount namespaces, and the processes that are in one or have a descriptor of one.
//!
//! Namespaces of other kinds end with the last process in them, and remaining processes are found
//! anyway.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::traces::processes::{numbers, open_files};

/// Namespace that a test was seen to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Namespace {
    kind: Kind,
    inode: u64,
    /// Number that the kernel gave the namespace, and never reuses.
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Network,
    Mounts,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Network, Self::Mounts];

    const fn name(self) -> &'static str {
        match self {
            Self::Network => "net",
            Self::Mounts => "mnt",
        }
    }

    /// Parses the target of a link, `net:[INODE]`; returns the inode.
    fn inode(self, link: &Path) -> Option<u64> {
        let rest = link.to_str()?.strip_prefix(self.name())?;
        rest.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
    }

    /// Returns the kernel's number of the namespace; `None` on a kernel without such numbers.
    fn number(self, path: &Path) -> Option<u64> {
        let file = File::open(path).ok()?;
        match self {
            Self::Network => timeloom_sys::namespace::cookie(file.into()).ok(),
            Self::Mounts => timeloom_sys::namespace::mounts(file).ok(),
        }
    }
}

impl Namespace {
    pub(crate) fn is_network(&self) -> bool {
        self.kind == Kind::Network
    }
}

/// Returns the namespaces that the process uses, except those of this process and those in `known`.
pub(crate) fn of(pid: i32, known: &BTreeSet<Namespace>) -> Vec<Namespace> {
    let is_known = |kind, inode| {
        let mut known = known.iter();
        known.any(|known| known.kind == kind && known.inode == inode)
    };
    let mut found = Vec::new();
    for (kind, inode, path) in links(pid) {
        if inode != own(kind)
            && !is_known(kind, inode)
            && let Some(number) = kind.number(&path)
        {
            found.push(Namespace {
                kind,
                inode,
                number,
            });
        }
    }
    found
}

/// Returns descriptions of the processes and descriptors that still use one of these namespaces.
pub(crate) fn alive(seen: &BTreeSet<Namespace>) -> Vec<String> {
    if seen.is_empty() {
        return Vec::new();
    }
    let inodes: BTreeSet<(Kind, u64)> = seen.iter().map(|it| (it.kind, it.inode)).collect();
    let mut found = Vec::new();
    for pid in numbers("/proc") {
        for (kind, inode, path) in links(pid) {
            let is_seen = |number| {
                seen.contains(&Namespace {
                    kind,
                    inode,
                    number,
                })
            };
            if inodes.contains(&(kind, inode)) && kind.number(&path).is_some_and(is_seen) {
                found.push(format!("namespace {} at {}", kind.name(), path.display()));
            }
        }
    }
    found
}

/// Returns true if a line of mountinfo is the mount of one of these network namespaces.
pub(crate) fn is_of(mount: &str, seen: &BTreeSet<Namespace>) -> bool {
    let fields = mount.split(' ').map(Path::new);
    let mut inodes = fields.filter_map(|field| Kind::Network.inode(field));
    inodes.any(|inode| seen.iter().any(|it| it.is_network() && it.inode == inode))
}

fn own(kind: Kind) -> u64 {
    fs::metadata(format!("/proc/self/ns/{}", kind.name())).map_or(0, |own| own.ino())
}

/// Returns the namespaces that the process is in or has a descriptor of.
fn links(pid: i32) -> Vec<(Kind, u64, PathBuf)> {
    let mut all = open_files(&pid.to_string());
    for kind in Kind::ALL {
        let path = PathBuf::from(format!("/proc/{pid}/ns/{}", kind.name()));
        all.extend(fs::read_link(&path).ok().map(|target| (path, target)));
    }
    let named = |(path, target): (PathBuf, PathBuf)| {
        let mut kinds = Kind::ALL.into_iter();
        kinds.find_map(|kind| Some((kind, kind.inode(&target)?, path.clone())))
    };
    all.into_iter().filter_map(named).collect()
}
