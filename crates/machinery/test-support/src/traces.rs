//! Detection of objects that a test, and the processes that it starts, leave behind on the machine.
//!
//! Other tests run at the same time, so nothing is counted, and only the objects of the one test
//! are examined. The processes of a test inherit an environment variable, or have the clock page of
//! its session mapped. Control groups and sockets contain the session's name. Mounts and files are
//! in the directories of the test. Namespaces are identified by numbers that the kernel never
//! reuses (it reuses their inodes).
//!
//! This module creates and removes no objects.

mod files;
mod namespaces;
mod processes;
mod whole;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::PATIENCE;

use namespaces::Namespace;
pub use whole::WholeProcess;

/// Environment variable by which the processes of a test are recognised.
const MARK: &str = "TIMELOOM_TEST_MARK";

/// Identification of one test, the mounts that existed before it, and the namespaces that it was
/// seen to use.
#[derive(Debug)]
pub struct Traces {
    /// Names of the test's sessions. The first name is also the value of the environment variable.
    names: Vec<String>,
    places: Vec<PathBuf>,
    mounts: BTreeSet<String>,
    namespaces: BTreeSet<Namespace>,
}

impl Traces {
    /// Creates the traces of a test whose session has this name, or which is the only test to use
    /// the name. It must be called before the test starts anything, because mounts that exist
    /// already are not the test's.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self {
            names: vec![name.to_owned()],
            places: Vec::new(),
            mounts: files::mounts(),
            namespaces: BTreeSet::new(),
        }
    }

    /// Creates the traces of a test that no other test shares the directory `place` with. The
    /// directory's name is the value of the environment variable.
    ///
    /// # Panics
    /// Panics if the directory does not exist.
    #[must_use]
    pub fn in_directory(place: &Path) -> Self {
        let name = place.file_name().expect("a directory with a name");
        Self::of(&name.to_string_lossy()).at(place)
    }

    /// Adds an existing directory of the test. Mounts, open files, sockets and unfinished files in
    /// it then count as the test's.
    ///
    /// # Panics
    /// Panics if the directory does not exist.
    #[must_use]
    pub fn at(mut self, place: &Path) -> Self {
        let place = place.canonicalize();
        self.places.push(place.expect("a directory of the test's"));
        self
    }

    /// Excludes the mounts that exist now, as if they had existed before the test.
    pub fn expect_mounts(&mut self) {
        self.mounts = files::mounts();
    }

    /// Adds the name of another session of the test.
    pub fn also_of(&mut self, name: &str) {
        self.names.push(name.to_owned());
    }

    /// Sets the environment variable for the processes that `command` starts.
    pub fn mark<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let (name, value) = self.variable();
        command.env(name, value)
    }

    /// Returns the name and the value of the environment variable that the test's processes have.
    #[must_use]
    pub fn variable(&self) -> (&'static str, &str) {
        (MARK, &self.names[0])
    }

    /// Returns the process identifiers of the test's living processes. (A zombie has no
    /// environment.)
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        processes::of(&self.names)
    }

    /// Records the namespaces that the test's processes use now.
    pub fn look(&mut self) {
        for pid in self.processes() {
            self.namespaces
                .extend(namespaces::of(pid, &self.namespaces));
        }
    }

    /// Returns the number of network namespaces that the test was seen to use.
    #[must_use]
    pub fn networks(&self) -> usize {
        let kinds = self.namespaces.iter().map(Namespace::is_network);
        kinds.filter(|is_network| *is_network).count()
    }

    /// Returns descriptions of the test's objects that remain; empty if there are none.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let processes = self.processes().into_iter();
        let mut left: Vec<String> = processes.map(processes::describe).collect();
        left.extend(files::cgroups(&self.names));
        left.extend(files::sockets(&self.names, &self.places));
        left.extend(files::unfinished(&self.places));
        left.extend(files::open(&self.places));
        left.extend(namespaces::alive(&self.namespaces));
        let now = files::mounts();
        let new = now.difference(&self.mounts);
        let own = new.filter(|text| {
            files::is_own(text, &self.names, &self.places)
                || namespaces::is_of(text, &self.namespaces)
        });
        left.extend(own.map(|text| format!("mount {text}")));
        left
    }

    /// Waits until no object of the test remains.
    ///
    /// # Panics
    /// Panics if an object still remains after [`PATIENCE`].
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let begun = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            let name = &self.names[0];
            assert!(
                begun.elapsed() < PATIENCE,
                "left behind by {name}: {left:#?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns true if `text` contains `name`, and not only as a part of a longer name.
fn names(text: &str, name: &str) -> bool {
    let goes_on = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(goes_on) && !text[at + name.len()..].starts_with(goes_on)
    })
}

#[cfg(test)]
mod tests;
