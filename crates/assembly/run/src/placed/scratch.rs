//! Directories of an agent's runs. Each run has one, which is locked while the agent lives. An
//! agent that is killed leaves its directories behind; the next agent that starts with the same
//! parent directory removes them.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use timeloom_sys::seal::draw;

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
            // Another agent that starts at this moment may have removed the directory as a
            // leftover.
            if let Some(lock) = lock(&path)? {
                return Ok(Self { path, _lock: lock });
            }
        }
        let what = format!("{}: cannot create a directory for a run", agents.display());
        Err(io::Error::other(what))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If the removal fails, the next agent that starts with this parent directory removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of killed agents, and returns their number.
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

/// Locks a directory. Returns `None` if another agent holds the lock, or if the directory is gone.
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
    fn only_directories_without_an_agent_are_swept() {
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
