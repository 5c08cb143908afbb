//! Where daemons and programs meet.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::TimelineName;

/// A directory with, for each timeline NAME, `NAME.page` (the page as a file,
/// which may be bind-mounted into a container), `NAME.sock` (the socket that
/// hands out the page and takes bindings) and `NAME.lock` (held by the daemon).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(PathBuf);

impl Directory {
    /// A directory of the caller's choice.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The one that is meant when none is said: what `TIMELOOM_TIMELINES` names,
    /// or `/run/timelines`, or for a user without the right to write there,
    /// `$XDG_RUNTIME_DIR/timelines`.
    pub fn usual() -> Self {
        if let Some(path) = std::env::var_os("TIMELOOM_TIMELINES") {
            return Self(path.into());
        }
        let user = rustix::process::geteuid();
        let system = PathBuf::from("/run/timelines");
        if user.is_root() || system.is_dir() {
            return Self(system);
        }
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(path) => Self(PathBuf::from(path).join("timelines")),
            None => Self(std::env::temp_dir().join(format!("timelines-{}", user.as_raw()))),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it, if it is not there: others may enter and read.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn make(&self) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o755).create(&self.0)
    }

    /// The page as a file.
    pub fn page(&self, name: &TimelineName) -> PathBuf {
        self.0.join(format!("{name}.page"))
    }

    /// The socket.
    pub fn socket(&self, name: &TimelineName) -> PathBuf {
        self.0.join(format!("{name}.sock"))
    }

    /// The timelines that have a page here, by name; their daemons may be dead.
    pub fn names(&self) -> Vec<TimelineName> {
        let Ok(entries) = std::fs::read_dir(&self.0) else {
            return Vec::new();
        };
        let name = |entry: std::fs::DirEntry| {
            let file = entry.file_name();
            file.to_str()?.strip_suffix(".page")?.parse().ok()
        };
        let mut names: Vec<_> = entries.flatten().filter_map(name).collect();
        names.sort();
        names
    }
}
