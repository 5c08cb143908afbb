//! Directory of a sweep: its runs, its table and its page.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::columns::{Column, encode_columns};
use crate::tree::Tree;
use crate::{ResultsError, RunDirectory};

/// Directory of a sweep. Like the directory of a run, it may have been prepared by another user, so
/// its files are opened only by methods of this type.
#[derive(Clone, Debug)]
pub struct SweepDirectory {
    tree: Tree,
}

impl SweepDirectory {
    /// Creates the directory if it does not exist.
    ///
    /// # Errors
    /// Fails if the directory cannot be created, or if another user can write in it.
    pub fn make(path: &Path) -> Result<Self, ResultsError> {
        let tree = Tree::make(path)?;
        Ok(Self { tree })
    }

    /// Creates the folders for the runs and for their output.
    ///
    /// # Errors
    /// Fails if a folder cannot be created or is a link, or if another user can write in it.
    pub fn make_folders(&self) -> Result<(), ResultsError> {
        self.tree.make_folder(RUNS)?;
        self.tree.make_folder(CONSOLE)
    }

    /// Returns true if the directory has no entries.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn is_empty(&self) -> Result<bool, ResultsError> {
        Ok(self.tree.entries(".")?.is_empty())
    }

    /// Returns the text of `sweep.json`; `None` if there is no such file.
    ///
    /// # Errors
    /// Fails if it is not a regular text file, or is too long.
    pub fn definition(&self) -> Result<Option<String>, ResultsError> {
        self.tree.read_text(DEFINITION, DEFINITION_BYTES)
    }

    /// Writes `sweep.json`.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn write_definition(&self, text: &str) -> Result<(), ResultsError> {
        self.tree.replace(DEFINITION, text.as_bytes())
    }

    /// Writes `sweep.parquet` and returns its path for messages. All columns have the same
    /// length.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if two columns have the same name.
    pub fn write_table(&self, columns: &[Column]) -> Result<PathBuf, ResultsError> {
        let path = self.tree.path_of(TABLE);
        let bytes = encode_columns(columns, &path)?;
        self.tree.replace(TABLE, &bytes)?;
        Ok(path)
    }

    /// Writes `sweep.html` and returns its path for messages.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn write_page(&self, html: &str) -> Result<PathBuf, ResultsError> {
        self.tree.replace(PAGE, html.as_bytes())?;
        Ok(self.tree.path_of(PAGE))
    }

    /// Opens the run `name`.
    ///
    /// # Errors
    /// Fails if there is no such run.
    pub fn run(&self, name: &str) -> Result<RunDirectory, ResultsError> {
        RunDirectory::of(self.tree.subtree(&in_folder(RUNS, name))?)
    }

    /// Returns the path of the run `name`, which is passed to the command that makes the run.
    pub fn run_path(&self, name: &str) -> PathBuf {
        self.tree.path_of(&in_folder(RUNS, name))
    }

    /// Removes the run `name`. No process may still be writing it.
    ///
    /// # Errors
    /// Fails with [`ResultsError::InUse`], among others.
    pub fn remove_run(&self, name: &str) -> Result<(), ResultsError> {
        // This fails if the run is in progress.
        self.run(name)?.recovered()?;
        self.tree.remove_all(&in_folder(RUNS, name))
    }

    /// Creates the file for the output of the run `name`, in place of an earlier one.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn console(&self, name: &str) -> Result<File, ResultsError> {
        self.tree.begin(&console(name))
    }

    /// Returns the last non-blank line of the output of the run `name`; `None` if there is none.
    pub fn last_console_line(&self, name: &str) -> Option<String> {
        let mut file = self.tree.read(&console(name)).ok()??;
        let length = file.metadata().ok()?.len();
        let begin = length.saturating_sub(LAST_BYTES);
        file.seek(SeekFrom::Start(begin)).ok()?;
        let mut bytes = Vec::new();
        io::Read::take(file, LAST_BYTES)
            .read_to_end(&mut bytes)
            .ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(last.trim().chars().take(LONGEST_LINE).collect())
    }
}

fn in_folder(folder: &str, name: &str) -> String {
    format!("{folder}/{name}")
}

fn console(name: &str) -> String {
    format!("{CONSOLE}/{name}.txt")
}

const RUNS: &str = "runs";
const CONSOLE: &str = "console";
const DEFINITION: &str = "sweep.json";
const TABLE: &str = "sweep.parquet";
const PAGE: &str = "sweep.html";

/// Maximum length of `sweep.json`, in bytes. With a hundred thousand runs it has about 20 MB.
const DEFINITION_BYTES: u64 = 64 << 20;
/// Number of bytes at the end of a run's output in which the last line is searched.
const LAST_BYTES: u64 = 16 * 1024;
const LONGEST_LINE: usize = 500;
