//! Folders of a run directory that are given to programs: for files of a program of another user,
//! for the Python package, and for timelines.

use std::fs::File;
use std::path::PathBuf;

use crate::directory::stem;
use crate::{ResultsError, RunDirectory, place};

impl RunDirectory {
    /// Creates `files/NAME` for a program of another user, who may not write elsewhere in this
    /// directory. `name` is converted to a file name, as for a log. Returns the folder's path.
    pub fn place_for(&self, name: &str, user: u32, group: u32) -> Result<PathBuf, ResultsError> {
        let path = place::make(&self.tree, &stem(name), user, group)?;
        std::path::absolute(&path).map_err(ResultsError::io(&path))
    }

    /// Writes a Python package below `python/`, and returns that folder's absolute path for a
    /// program's `PYTHONPATH`. `modules` are pairs of file name and text.
    ///
    /// # Errors
    /// Fails if the disk is full, or if another entry has the name of a folder.
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

    /// Creates `timelines/HOST/`, with the configuration of the host's timeline daemon. Returns the
    /// folder's absolute path, where programs find the daemon's files.
    ///
    /// # Errors
    /// Fails if the disk is full, or if another entry has the name of a folder.
    pub fn make_timelines(&self, host: &str, config: &str) -> Result<PathBuf, ResultsError> {
        let folder = timelines_of(host);
        self.tree.make_folder(TIMELINES)?;
        self.tree.make_folder(&folder)?;
        let file = format!("{folder}/{TIMELINES_CONFIG}");
        self.tree.replace(&file, config.as_bytes())?;
        self.absolute(&folder)
    }

    /// Creates `ptp-keys/HOST/` for the keys of a host's PTP programs. Returns the folder's absolute
    /// path.
    ///
    /// # Errors
    /// Fails if another entry has the name of a folder.
    pub fn make_ptp_keys(&self, host: &str) -> Result<PathBuf, ResultsError> {
        let folder = format!("{PTP_KEYS}/{}", stem(host));
        self.tree.make_folder(PTP_KEYS)?;
        self.tree.make_folder(&folder)?;
        self.absolute(&folder)
    }

    /// Opens the page of a host's timeline; `None` if the daemon has not created it yet.
    ///
    /// # Errors
    /// Fails if the entry is not a regular file.
    pub fn timeline_page(&self, host: &str, timeline: &str) -> Result<Option<File>, ResultsError> {
        self.tree
            .read(&format!("{}/{timeline}.page", timelines_of(host)))
    }

    /// Opens the journal in which a host's timeline daemon records the changes of a timeline's
    /// status. Returns `None` if the daemon has not created it yet.
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

    /// Removes sockets, locks and journals that a host's daemon left when it ended. Its pages are
    /// kept.
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
/// Folder of the keys of PTP programs.
pub(crate) const PTP_KEYS: &str = "ptp-keys";

/// Suffix of the name of a timeline's journal.
pub const TIMELINE_JOURNAL: &str = ".journal";

/// Name of the configuration file in a daemon's folder.
pub const TIMELINES_CONFIG: &str = "timelines.toml";
