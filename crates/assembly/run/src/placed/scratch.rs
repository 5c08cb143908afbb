//! Directories of an agent's runs, one per run, locked while the agent lives. A killed agent leaves
//! its directories behind; the next agent that starts in the same place removes them.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::secret::draw;

/// Directory of a run, removed with its content on drop.
pub(super) struct Scratch {
    path: PathBuf,
    /// Lock on the directory; a process that can acquire it knows that the owner is gone.
    _lock: File,
}

impl Scratch {
    /// Makes a directory with a random name below `agents`, the agent's own directory.
    ///
    /// # Errors
    /// Fails if the directory cannot be made.
    pub(super) fn create(agents: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let [a, b, c, d, ..] = draw()?;
            let path = agents.join(format!("{PREFIX}{:08x}", u32::from_be_bytes([a, b, c, d])));
            match fs::DirBuilder::new().mode(0o755).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // An agent starting at this moment may have removed it as a leftover.
            if let Some(lock) = lock(&path)? {
                return Ok(Self { path, _lock: lock });
            }
        }
        let what = format!("{}: no run's directory can be made", agents.display());
        Err(io::Error::other(what))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed is removed by the next agent that starts in this
        // place.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of killed agents. Returns their number.
///
/// # Errors
/// Fails if the agent's own directory cannot be read.
pub(super) fn sweep(agents: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(agents)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_run = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_run
            && entry.file_type()?.is_dir()
            && let Ok(Some(_lock)) = lock(&entry.path())
        {
            removed += usize::from(fs::remove_dir_all(entry.path()).is_ok());
        }
    }
    Ok(removed)
}

/// Locks a directory; `None` if another agent holds the lock or the directory is gone.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let is_there = fs::symlink_metadata(path).is_ok_and(|found| {
        file.metadata()
            .is_ok_and(|locked| (found.dev(), found.ino()) == (locked.dev(), locked.ino()))
    });
    Ok(is_there.then_some(file))
}

const PREFIX: &str = "run-";
const TRIES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_agent_holds_is_swept_and_what_one_holds_is_not() {
        let place = tempfile::tempdir().unwrap();
        let agents = place.path();
        let held = Scratch::create(agents).unwrap();
        // An earlier version named directories by the process id, which can be reused.
        let left = agents.join(format!("run-{}-0", std::process::id()));
        fs::create_dir_all(left.join("files/deep")).unwrap();
        fs::create_dir(agents.join("kept")).unwrap();
        assert_eq!(sweep(agents).unwrap(), 1);
        assert!(!left.exists());
        assert!(held.path().is_dir() && agents.join("kept").is_dir());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
        assert_eq!(sweep(agents).unwrap(), 0);
    }
}
