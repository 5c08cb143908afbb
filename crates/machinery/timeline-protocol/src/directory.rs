//! Where daemons and programs meet.

use std::io;
use std::path::{Path, PathBuf};

use timeloom_sys::own;

use crate::TimelineName;

/// A directory with, for each timeline NAME, `NAME.page` (the page as a file,
/// which may be bind-mounted into a container), `NAME.sock` (the socket that
/// hands out the page and takes bindings) and `NAME.lock` (held by the daemon).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
    /// Of one user, at a place that nobody chose: others could have been there first.
    private: bool,
}

impl Directory {
    /// A directory of the caller's choice.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            private: false,
        }
    }

    /// The one that is meant when none is said: what `TIMELOOM_TIMELINES` names,
    /// or `/run/timelines`, or for a user without the right to write there,
    /// `$XDG_RUNTIME_DIR/timelines`.
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

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, if it is not there: others may enter and read, unless it is that of one
    /// user.
    ///
    /// # Errors
    /// When the system refuses, or others may write there.
    pub fn make(&self) -> io::Result<()> {
        let mode = if self.private { 0o700 } else { 0o755 };
        Ok(own::make(&self.path, mode)?)
    }

    /// Makes sure that what is found here is what it looks like. (A directory of the
    /// caller's choice is trusted.)
    ///
    /// # Errors
    /// Others could have put it there.
    pub fn check(&self) -> io::Result<()> {
        match self.private {
            true => Ok(own::check(&self.path)?),
            false => Ok(()),
        }
    }

    /// The page as a file.
    pub fn page(&self, name: &TimelineName) -> PathBuf {
        self.path.join(format!("{name}.page"))
    }

    /// The socket.
    pub fn socket(&self, name: &TimelineName) -> PathBuf {
        self.path.join(format!("{name}.sock"))
    }

    /// The timelines that have a page or a socket here, by name; their daemons may be
    /// dead.
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
