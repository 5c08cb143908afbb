//! Transfer of results between machines: the files of its run directory that an agent sends, and
//! the folder in which they arrive.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::directory::stem;
use crate::tree::Tree;
use crate::{ResultsError, RunDirectory};

/// File of a run directory, opened for sending.
#[derive(Debug)]
pub struct OutgoingFile {
    /// Name of the file in the run directory.
    pub name: String,
    /// The file, positioned at its beginning.
    pub file: File,
    /// Length at the time of opening, in bytes.
    pub bytes: u64,
}

/// Folder `from-AGENT` of a run directory, in which the results of an agent arrive.
#[derive(Debug)]
pub struct Incoming {
    tree: Tree,
    /// Run directory and the folder's name in it; `None` for a folder outside of a run directory.
    within: Option<(Tree, String)>,
}

impl RunDirectory {
    /// Creates the folder for an agent's results. The folder is removed once the results have been
    /// merged.
    ///
    /// # Errors
    /// Fails if an entry of that name exists, unless an earlier run left it.
    pub fn make_incoming(&self, agent: &str) -> Result<Incoming, ResultsError> {
        let name = format!("{INCOMING}{}", stem(agent));
        match self.tree.make_new_folder(&name) {
            Err(ResultsError::Io { path, source })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                return Err(ResultsError::InTheWay { path });
            }
            other => other?,
        }
        Ok(Incoming {
            tree: self.tree.subtree(&name)?,
            within: Some((self.tree.clone(), name)),
        })
    }

    /// Opens the files of this run that an agent sends. Links, devices, and entries whose names are
    /// not those of results are omitted.
    pub fn outgoing(&self) -> Vec<OutgoingFile> {
        let mut names: Vec<String> = SENT.map(str::to_owned).into();
        for folder in SENT_FOLDERS {
            for (name, _) in self.tree.entries(folder).unwrap_or_default() {
                names.extend(name.to_str().map(|name| format!("{folder}/{name}")));
            }
        }
        let sent = |name: String| {
            let file = self.tree.read(&name).ok()??;
            let bytes = file.metadata().ok()?.len();
            is_result(&name).then_some(OutgoingFile { name, file, bytes })
        };
        names.into_iter().filter_map(sent).collect()
    }

    /// Moves logs and captures from another run directory to this one. Both must be on the same
    /// file system.
    ///
    /// # Errors
    /// Fails if a name exists in this directory already, or is not a regular file in the other.
    pub fn take_over_files(&self, from: &Self) -> Result<(), ResultsError> {
        for folder in SENT_FOLDERS {
            for (name, _) in from.tree.entries(folder)? {
                let name = format!("{folder}/{}", name.to_string_lossy());
                self.tree.take_over(&from.tree, &name, &name)?;
            }
        }
        Ok(())
    }

    /// Removes the folders in which agents of an earlier run sent results, if they contain only
    /// results.
    pub(crate) fn remove_incoming(&self) -> Result<(), ResultsError> {
        for (name, is_file) in self.tree.entries(".")? {
            let Some(name) = name.to_str().filter(|name| name.starts_with(INCOMING)) else {
                continue;
            };
            let has_results_only = |folder: &Tree| folder.holds_only(&|name| is_result(name));
            let is_ours = !is_file
                && self
                    .tree
                    .subtree(name)
                    .is_ok_and(|it| has_results_only(&it));
            if is_ours {
                self.tree.remove_all(name)?;
            }
        }
        Ok(())
    }
}

impl Incoming {
    /// Creates a folder for results outside of a run directory.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or if another user can write in it.
    pub fn at(path: &Path) -> Result<Self, ResultsError> {
        let tree = Tree::make(path)?;
        Ok(Self { tree, within: None })
    }

    /// Creates the file for a result that an agent sends.
    ///
    /// # Errors
    /// Fails if `name` is not that of a result, or if a file of that name has arrived already.
    pub fn create(&self, name: &str) -> Result<File, ResultsError> {
        if !is_result(name) {
            let path = self.tree.path_of(name);
            return Err(ResultsError::malformed(&path, "no agent may send this"));
        }
        if let Some((folder, _)) = name.split_once('/') {
            self.tree.make_folder(folder)?;
        }
        self.tree.create_new(name)
    }

    /// Returns true if no file has arrived.
    pub fn is_empty(&self) -> bool {
        let entries = self.tree.entries(".");
        entries.is_ok_and(|entries| entries.is_empty())
    }

    /// Opens the received files as a run directory.
    ///
    /// # Errors
    /// Fails if the files do not form a run directory.
    pub fn open(&self) -> Result<RunDirectory, ResultsError> {
        RunDirectory::of(self.tree.clone())
    }

    /// Removes the folder with all its content.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn remove(&self) -> Result<(), ResultsError> {
        match &self.within {
            Some((run, name)) => run.remove_all(name),
            None => Ok(()),
        }
    }
}

/// Returns true if an agent may send a file of this name.
pub fn is_result(name: &str) -> bool {
    let plain = |stem: &str| {
        let of_names = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !stem.is_empty()
            && stem.len() <= LONGEST_STEM
            && !stem.starts_with('.')
            && stem.chars().all(of_names)
    };
    let inside = |folder: &str, end: &str| {
        let name = name
            .strip_prefix(folder)
            .and_then(|it| it.strip_suffix(end));
        name.is_some_and(plain)
    };
    SENT.contains(&name) || inside("logs/", ".log") || inside("net/", ".pcapng")
}

const INCOMING: &str = "from-";

/// Names of the files that an agent sends, in addition to those in [`SENT_FOLDERS`].
const SENT: [&str; 5] = [
    "manifest.json",
    "signals.parquet",
    "events.parquet",
    "clock.parquet",
    "labels.parquet",
];
const SENT_FOLDERS: [&str; 2] = ["logs", "net"];
/// Maximum length of a name in bytes. With a number and an extension, it stays within 255 bytes.
const LONGEST_STEM: usize = 240;
