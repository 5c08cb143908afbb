//! Directory for the sockets and files of one benchmark, removed when the benchmark ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::BenchError;

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self, BenchError> {
        let path = std::env::temp_dir().join(unique("timeloom-bench"));
        std::fs::create_dir(&path)
            .map_err(BenchError::system(format!("making {}", path.display())))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a name that no other process of this machine uses.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{what}-{}-{count}", std::process::id())
}
