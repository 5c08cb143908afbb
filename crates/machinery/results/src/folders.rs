//! Folders of a run directory that are given to programs: for files of another user's program, for
//! the Python package, for timelines.

use std::fs::File;
use std::path::PathBuf;

use crate::directory::stem;
use crate::{ResultsError, RunDirectory, place};

impl RunDirectory {
    /// Makes `files/NAME` for a program of another user, which may write there and nowhere else in
    /// this directory. The name is converted to a file name, as for a log.
    pub fn place_for(&self, name: &str, user: u32, group: u32) -> Result<PathBuf, ResultsError> {
        let path = place::make(&self.tree, &stem(name), user, group)?;
        std::path::absolute(&path).map_err(ResultsError::io(&path))
    }

    /// Writes a Python package below `python/` and returns that folder's absolute path, for a
    /// program's `PYTHONPATH`. `modules` are names of files and their texts.
    ///
    /// # Errors
    /// Fails if the disk is full, or another entry has the name of a folder.
    pub fn write_package(
        &self,
        package: &str,
        modules: &[(&str, &str)],
    ) -> Result<PathBuf, ResultsError> {
        let folder = format!("{PYTHON}/{package}");
        self.tree.make_folder(PYTHON)?;
        self.tree.make_folder(&folder)?;
        for (name, text) in modules {
            let file = format!("{folder}/{name}");
            self.tree.replace(&file, text.as_bytes())?;
        }
        self.absolute(PYTHON)
    }

    /// Makes `timelines/HOST/` with the configuration of the host's timeline daemon in it, and
    /// returns the folder's absolute path, where programs find the daemon's files.
    ///
    /// # Errors
    /// Fails if the disk is full, or another entry has the name of a folder.
    pub fn make_timelines(&self, host: &str, config: &str) -> Result<PathBuf, ResultsError> {
        let folder = timelines_of(host);
        self.tree.make_folder(TIMELINES)?;
        self.tree.make_folder(&folder)?;
        let file = format!("{folder}/{TIMELINES_CONFIG}");
        self.tree.replace(&file, config.as_bytes())?;
        self.absolute(&folder)
    }

    /// Opens the page of a host's timeline; `None` if the daemon has not made it yet.
    ///
    /// # Errors
    /// Fails if the entry is not a regular file.
    pub fn timeline_page(&self, host: &str, timeline: &str) -> Result<Option<File>, ResultsError> {
        self.tree
            .read(&format!("{}/{timeline}.page", timelines_of(host)))
    }

    /// Opens the journal in which a host's timeline daemon writes the changes of a timeline's
    /// status; `None` if the daemon has not made it yet.
    ///
    /// # Errors
    /// Fails if the entry is not a regular file.
    pub fn timeline_journal(
        &self,
        host: &str,
        timeline: &str,
    ) -> Result<Option<File>, ResultsError> {
        let folder = timelines_of(host);
        self.tree
            .read(&format!("{folder}/{timeline}{TIMELINE_JOURNAL}"))
    }

    /// Removes sockets, locks and journals of a host's daemon that has ended. Its pages stay.
    pub fn remove_timeline_leftovers(&self, host: &str) {
        let folder = timelines_of(host);
        for (name, _) in self.tree.entries(&folder).unwrap_or_default() {
            let name = name.to_string_lossy();
            if [".sock", ".lock", TIMELINE_JOURNAL]
                .iter()
                .any(|end| name.ends_with(end))
            {
                let _ = self.tree.remove(&format!("{folder}/{name}"));
            }
        }
    }

    fn absolute(&self, name: &str) -> Result<PathBuf, ResultsError> {
        let path = self.tree.path_of(name);
        std::path::absolute(&path).map_err(ResultsError::io(&path))
    }
}

fn timelines_of(host: &str) -> String {
    format!("{TIMELINES}/{}", stem(host))
}

pub(crate) const PYTHON: &str = "python";
pub(crate) const TIMELINES: &str = "timelines";

/// Suffix of the name of a timeline's journal.
pub const TIMELINE_JOURNAL: &str = ".journal";

/// Name of a daemon's configuration in its folder.
pub const TIMELINES_CONFIG: &str = "timelines.toml";
