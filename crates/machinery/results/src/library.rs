//! Directory below which runs lie, in any folder: `runs/hello-1`, `runs/demo/calm`.

use std::path::PathBuf;

use crate::tree::Tree;
use crate::{ResultsError, RunDirectory};

/// Directory with runs below it. Like the directory of a run it may have been prepared by another
/// user: folders are opened from its descriptor, and no symbolic link below it is followed.
#[derive(Clone, Debug)]
pub struct Library {
    tree: Tree,
}

impl Library {
    /// Opens a directory.
    ///
    /// # Errors
    /// Fails if there is none at this path.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        let tree = Tree::open(&path.into())?;
        Ok(Self { tree })
    }

    /// Returns the names of the runs, relative to the directory and sorted; `.` for the directory
    /// itself. The second value is false if some were left out: those below [`DEPTH`] folders, and
    /// those beyond [`MOST_RUNS`] or [`MOST_ENTRIES`].
    pub fn run_names(&self) -> (Vec<String>, bool) {
        let mut search = Search::default();
        search.look(&self.tree, "", DEPTH);
        search.names.sort();
        (search.names, search.is_complete)
    }

    /// Opens the run of this name.
    ///
    /// # Errors
    /// Fails if there is no run of this name, also if a link leads to one.
    pub fn run(&self, name: &str) -> Result<RunDirectory, ResultsError> {
        if name == SELF {
            return RunDirectory::of(self.tree.clone());
        }
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if name.contains('\0') || !name.split('/').all(plain) {
            return Err(ResultsError::NoRunHere(
                self.tree.path_of("(no name of a run)"),
            ));
        }
        RunDirectory::of(self.tree.subtree(name)?)
    }
}

/// Search for runs.
struct Search {
    names: Vec<String>,
    entries: usize,
    is_complete: bool,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            entries: 0,
            is_complete: true,
        }
    }
}

impl Search {
    /// Adds the run in `tree`, or the runs below it. A run contains no runs.
    fn look(&mut self, tree: &Tree, name: &str, depth: usize) {
        if RunDirectory::of(tree.clone()).is_ok() {
            let name = if name.is_empty() { SELF } else { name };
            self.names.push(name.to_owned());
            return;
        }
        let entries = tree.entries(".").unwrap_or_default();
        for (entry, is_file) in entries {
            self.entries += 1;
            if self.entries > MOST_ENTRIES || self.names.len() >= MOST_RUNS {
                self.is_complete = false;
                return;
            }
            // A name that is no text cannot be part of an address.
            let Some(entry) = entry.to_str().filter(|it| !is_file && !it.starts_with('.')) else {
                continue;
            };
            // Fails for links, and for entries that are no folders.
            let Ok(below) = tree.subtree(entry) else {
                continue;
            };
            if depth == 0 {
                self.is_complete = false;
                continue;
            }
            let name = match name {
                "" => entry.to_owned(),
                above => format!("{above}/{entry}"),
            };
            self.look(&below, &name, depth - 1);
        }
    }
}

/// Name of the directory itself.
const SELF: &str = ".";
/// Maximum number of folders above a run.
const DEPTH: usize = 4;
/// Maximum number of runs that are listed.
const MOST_RUNS: usize = 1000;
/// Maximum number of directory entries that are looked at.
const MOST_ENTRIES: usize = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_folders_and_no_link_is_followed() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        for name in ["runs/b", "runs/demo/calm", "elsewhere/secret"] {
            RunDirectory::create(at(name)).expect("it can be made");
        }
        std::fs::create_dir_all(at("runs/empty/folder")).expect("it can be made");
        std::os::unix::fs::symlink(at("elsewhere"), at("runs/link")).expect("it can be made");
        std::os::unix::fs::symlink(at("elsewhere/secret"), at("runs/run")).expect("likewise");
        let library = Library::open(at("runs")).expect("it is there");
        assert_eq!(
            library.run_names(),
            (vec!["b".to_owned(), "demo/calm".to_owned()], true)
        );
        assert!(library.run("demo/calm").is_ok());
        let refused = [
            "",
            "..",
            ".",
            "../elsewhere/secret",
            "demo/../b",
            "/b",
            "b/",
            "b//",
            "run",
            "link/secret",
            "demo",
            "b\0",
            "empty/folder",
        ];
        for name in refused {
            assert!(library.run(name).is_err(), "{name:?}");
        }
        let itself = Library::open(at("runs/b")).expect("it is there");
        assert_eq!(itself.run_names().0, ["."]);
        assert!(itself.run(".").is_ok());
    }
}
