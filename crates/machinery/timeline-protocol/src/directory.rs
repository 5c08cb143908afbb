//! Directory in which programs find daemons.

use std::io;
use std::path::{Path, PathBuf};

use timeloom_sys::own;

use crate::TimelineName;

/// Directory with, for each timeline NAME, `NAME.page` (the page as a file, which may be
/// bind-mounted into a container), `NAME.sock` (the socket that hands out the page and takes
/// bindings) and `NAME.lock` (held by the daemon).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
    /// True for a directory of one user at a default place, which another user could have created
    /// first.
    private: bool,
}

impl Directory {
    /// Uses a directory of the caller's choice.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            private: false,
        }
    }

    /// Returns the default directory: the one in `TIMELOOM_TIMELINES`, or `/run/timelines`, or for
    /// a user without the right to write there, `$XDG_RUNTIME_DIR/timelines`.
    pub fn usual() -> Self {
        if let Some(path) = std::env::var_os("TIMELOOM_TIMELINES") {
            return Self::new(path);
        }
        let system = Path::new("/run/timelines");
        if rustix::process::geteuid().is_root() || system.is_dir() {
            return Self::new(system);
        }
        Self {
            path: own::meeting_place(system, "timelines"),
            private: true,
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory unless it exists: others may enter and read, unless it is that of one
    /// user.
    ///
    /// # Errors
    /// Fails if the system refuses, or other users may write there.
    pub fn make(&self) -> io::Result<()> {
        let mode = if self.private { 0o700 } else { 0o755 };
        Ok(own::make(&self.path, mode)?)
    }

    /// Checks that the files found here can be trusted. (A directory of the caller's choice is
    /// trusted.)
    ///
    /// # Errors
    /// Fails if another user could have put them there.
    pub fn check(&self) -> io::Result<()> {
        match self.private {
            true => Ok(own::check(&self.path)?),
            false => Ok(()),
        }
    }

    /// Returns the path of the page.
    pub fn page(&self, name: &TimelineName) -> PathBuf {
        self.path.join(format!("{name}.page"))
    }

    /// Returns the path of the socket.
    pub fn socket(&self, name: &TimelineName) -> PathBuf {
        self.path.join(format!("{name}.sock"))
    }

    /// Returns the timelines that have a page or a socket here, by name; their daemons may be dead.
    pub fn names(&self) -> Vec<TimelineName> {
        if self.check().is_err() {
            return Vec::new();
        }
        let Ok(entries) = std::fs::read_dir(&self.path) else {
            return Vec::new();
        };
        let name = |entry: std::fs::DirEntry| {
            let file = entry.file_name();
            let file = file.to_str()?;
            let name = file.strip_suffix(".page");
            name.or(file.strip_suffix(".sock"))?.parse().ok()
        };
        let mut names: Vec<_> = entries.flatten().filter_map(name).collect();
        names.sort();
        names.dedup();
        names
    }
}
