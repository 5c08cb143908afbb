//! Detection of objects that a test, and the processes that it starts, leave on the machine.
//!
//! Other tests run concurrently, so nothing is counted, and only the test's own objects are
//! examined. Its processes inherit an environment variable, or have the clock page of its session
//! mapped. Control groups and sockets have the session's name. Mounts and files are in its
//! directories. Namespaces are identified by numbers that the kernel never reuses (it reuses their
//! inodes).
//!
//! This crate creates and removes nothing.
#![forbid(unsafe_code)]

mod files;
mod namespaces;
mod processes;
mod whole;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use timeloom_testing::PATIENCE;

use namespaces::Namespace;
pub use whole::WholeProcess;

/// Environment variable that marks processes.
const MARK: &str = "TIMELOOM_TEST_MARK";

/// Identification of one test, the state before it, and the objects seen so far.
#[derive(Debug)]
pub struct Traces {
    /// Names of sessions. The first is also the mark.
    names: Vec<String>,
    places: Vec<PathBuf>,
    mounts: BTreeSet<String>,
    namespaces: BTreeSet<Namespace>,
}

impl Traces {
    /// Creates the traces of a test whose session has this name, or which is the only one to use
    /// it. To be called before anything is started: present mounts are not the test's.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self {
            names: vec![name.to_owned()],
            places: Vec::new(),
            mounts: files::mounts(),
            namespaces: BTreeSet::new(),
        }
    }

    /// Creates the traces of a test that has this directory for itself, whose name is the mark.
    ///
    /// # Panics
    /// Panics if there is no such directory.
    #[must_use]
    pub fn in_directory(place: &Path) -> Self {
        let name = place.file_name().expect("a directory with a name");
        Self::of(&name.to_string_lossy()).at(place)
    }

    /// Adds an existing directory of the test: mounts and open files in it, and sockets and
    /// unfinished files, are the test's.
    ///
    /// # Panics
    /// Panics if there is no such directory.
    #[must_use]
    pub fn at(mut self, place: &Path) -> Self {
        let place = place.canonicalize();
        self.places.push(place.expect("a directory of the test's"));
        self
    }

    /// Excludes the present mounts too.
    pub fn expect_mounts(&mut self) {
        self.mounts = files::mounts();
    }

    /// Adds the name of another session of the test.
    pub fn also_of(&mut self, name: &str) {
        self.names.push(name.to_owned());
    }

    /// Marks the processes that `command` starts.
    pub fn mark<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let (name, value) = self.variable();
        command.env(name, value)
    }

    /// Returns the name and value of the environment variable that marks a process.
    #[must_use]
    pub fn variable(&self) -> (&'static str, &str) {
        (MARK, &self.names[0])
    }

    /// Returns the living processes of the test. (A zombie has no environment.)
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        processes::of(&self.names)
    }

    /// Records the namespaces that the test uses now.
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

    /// Returns descriptions of the test's remaining objects; empty if none remain.
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

    /// Waits until nothing is left.
    ///
    /// # Panics
    /// Panics if something is still left after [`PATIENCE`].
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

/// Returns true if a text has this name in it, not as a part of a longer one.
fn names(text: &str, name: &str) -> bool {
    let goes_on = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(goes_on) && !text[at + name.len()..].starts_with(goes_on)
    })
}

#[cfg(test)]
mod tests;
