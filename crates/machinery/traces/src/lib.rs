//! What a test, and all that it starts, leaves on the machine.
//!
//! Other tests come and go meanwhile, so nothing is counted, and nothing is looked at but
//! what is this test's own. Its processes inherit a variable of the environment, or live
//! by the clock page of its session. Control groups and sockets carry the session's name.
//! Mounts and files are in its directories. Namespaces are known by numbers that the
//! kernel never gives twice (their inodes it does).
//!
//! It makes nothing, and removes nothing.
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

/// The variable by which processes are known.
const MARK: &str = "TIMELOOM_TEST_MARK";

/// What one test is known by, what was there before it, and what has been seen of it.
#[derive(Debug)]
pub struct Traces {
    /// The first is the mark. All are names of sessions.
    names: Vec<String>,
    places: Vec<PathBuf>,
    mounts: BTreeSet<String>,
    namespaces: BTreeSet<Namespace>,
}

impl Traces {
    /// Of a test whose session has this name, or which is alone to use it. To be taken
    /// before anything is started: what is mounted now is not the test's.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self {
            names: vec![name.to_owned()],
            places: Vec::new(),
            mounts: files::mounts(),
            namespaces: BTreeSet::new(),
        }
    }

    /// Of a test that has this directory for itself, whose name is the mark.
    ///
    /// # Panics
    /// There is no such directory.
    #[must_use]
    pub fn in_directory(place: &Path) -> Self {
        let name = place.file_name().expect("a directory with a name");
        Self::of(&name.to_string_lossy()).at(place)
    }

    /// A directory of the test's, which is there: what is mounted there, what is open
    /// there, and sockets and unfinished files there are its own.
    ///
    /// # Panics
    /// There is no such directory.
    #[must_use]
    pub fn at(mut self, place: &Path) -> Self {
        let place = place.canonicalize();
        self.places.push(place.expect("a directory of the test's"));
        self
    }

    /// What is mounted now is not the test's either.
    pub fn expect_mounts(&mut self) {
        self.mounts = files::mounts();
    }

    /// Another session of the test has this name.
    pub fn also_of(&mut self, name: &str) {
        self.names.push(name.to_owned());
    }

    /// What `command` starts is the test's.
    pub fn mark<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let (name, value) = self.variable();
        command.env(name, value)
    }

    /// The variable of the environment that marks a process, and its value.
    #[must_use]
    pub fn variable(&self) -> (&'static str, &str) {
        (MARK, &self.names[0])
    }

    /// The test's processes that live. (Who is dead and not waited for has no
    /// environment.)
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        processes::of(&self.names)
    }

    /// Notes the namespaces that the test uses now.
    pub fn look(&mut self) {
        for pid in self.processes() {
            self.namespaces
                .extend(namespaces::of(pid, &self.namespaces));
        }
    }

    /// How many network namespaces the test was seen to use.
    #[must_use]
    pub fn networks(&self) -> usize {
        let kinds = self.namespaces.iter().map(Namespace::is_network);
        kinds.filter(|is_network| *is_network).count()
    }

    /// What is there of it, in words; nothing when it is gone.
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
    /// When something is still there after [`PATIENCE`].
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

/// Whether a text has this name in it, and not just as a part of a longer one.
fn names(text: &str, name: &str) -> bool {
    let goes_on = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(goes_on) && !text[at + name.len()..].starts_with(goes_on)
    })
}

#[cfg(test)]
mod tests;
