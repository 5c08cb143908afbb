//! Directory in which programs find the daemons of timelines.

use std::io;
use std::path::{Path, PathBuf};

use timeloom_sys::own;

use crate::protocol::TimelineName;

/// Directory with three files for each timeline NAME: `NAME.page` (the page, which may be
/// bind-mounted into a container), `NAME.sock` (the socket that passes the page and accepts
/// bindings) and `NAME.lock` (the lock that the daemon holds).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
    /// True for a user's private directory at a default path, which another user could have created
    /// first.
    private: bool,
}

impl Directory {
    /// Creates a value for a directory that the caller chose and trusts.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            private: false,
        }
    }

    /// Returns the default directory: the value of `TIMELOOM_TIMELINES` if it is set, otherwise
    /// `/run/timelines`, or `$XDG_RUNTIME_DIR/timelines` for a user without the right to write
    /// there.
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

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory unless it exists. Other users may enter and read it, unless it is the
    /// private directory of a user.
    ///
    /// # Errors
    /// Fails if the system call fails, or if other users may write to the directory.
    pub fn make(&self) -> io::Result<()> {
        let mode = if self.private { 0o700 } else { 0o755 };
        Ok(own::make(&self.path, mode)?)
    }

    /// Checks that the files in the directory can be trusted. A directory that the caller chose is
    /// always trusted.
    ///
    /// # Errors
    /// Fails if another user could have created the files.
    pub fn check(&self) -> io::Result<()> {
        match self.private {
            true => Ok(own::check(&self.path)?),
            false => Ok(()),
        }
    }

    /// Returns the path of the timeline's page.
    pub fn page(&self, name: &TimelineName) -> PathBuf {
        self.path.join(format!("{name}.page"))
    }

    /// Returns the path of the timeline's socket.
    pub fn socket(&self, name: &TimelineName) -> PathBuf {
        self.path.join(format!("{name}.sock"))
    }

    /// Returns the names of the timelines that have a page or a socket here, sorted. Their daemons
    /// may be dead.
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
