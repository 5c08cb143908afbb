//! Mistakes in a scenario, collected while it is read and handed out together.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::tree::{Node, Spot};

/// Why a scenario cannot be run: one or more mistakes, in the order in which
/// they stand. `Display` gives one line for each; [`ScenarioErrors::render`]
/// shows the text as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioErrors {
    pub(crate) sources: Vec<Source>,
    pub(crate) mistakes: Vec<Mistake>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it was made: the file's name, or `--set KEY=VALUE`.
    pub origin: String,
    /// The line in the file, from 1; 0 when the file could not be read.
    pub line: usize,
    /// The column in that line, in characters from 1; 0 as above.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it, when that is known.
    pub help: Option<String>,
    pub(crate) spot: Spot,
    is_in_file: bool,
}

/// A text that mistakes can stand in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    is_set: bool,
    /// Where it was read from, if it was.
    directory: Option<PathBuf>,
}

impl Source {
    /// A longer file is refused. Thousands of hosts take some megabytes.
    pub(crate) const MOST_BYTES: u64 = 64 << 20;

    pub(crate) fn file(name: &str, text: &str, directory: Option<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            is_set: false,
            directory,
        }
    }

    pub(crate) fn set(text: &str) -> Self {
        Self {
            name: format!("--set {text}"),
            text: text.to_owned(),
            is_set: true,
            directory: None,
        }
    }

    /// What shows where in a source something stands: its name, and `--set` of all sets.
    pub(crate) fn origin(&self) -> &str {
        if self.is_set { "--set" } else { &self.name }
    }
}

impl ScenarioErrors {
    /// All mistakes, in the order in which they stand in the file; those of
    /// the sets follow.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    pub(crate) fn unreadable(name: &str, error: &std::io::Error) -> Self {
        let mistake = Mistake {
            origin: name.to_owned(),
            line: 0,
            column: 0,
            message: format!("the scenario cannot be read: {error}"),
            help: None,
            spot: Spot::default(),
            is_in_file: true,
        };
        Self {
            sources: vec![Source::file(name, "", None)],
            mistakes: vec![mistake],
        }
    }
}

impl fmt::Display for ScenarioErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.origin)?;
        if self.line > 0 && self.is_in_file {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        write!(f, " {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ScenarioErrors {}

/// The mistakes found so far.
pub(crate) struct Report {
    sources: Vec<Source>,
    found: Vec<Found>,
    /// How many of `found` are values that could not be read.
    unread: usize,
}

struct Found {
    spot: Spot,
    path: Vec<String>,
    message: String,
    help: Option<String>,
}

impl Report {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        Self {
            sources,
            found: Vec::new(),
            unread: 0,
        }
    }

    /// One more text that mistakes can stand in; returns its number.
    pub(crate) fn add_source(&mut self, source: Source) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Whether what stands there was given on the command line.
    pub(crate) fn is_set(&self, spot: &Spot) -> bool {
        self.sources[spot.source].is_set
    }

    /// The directory of the file in which this stands; `None` when it stands in none.
    pub(crate) fn directory(&self, spot: &Spot) -> Option<&Path> {
        self.sources[spot.source].directory.as_deref()
    }

    /// What a file is called that is named beside the file in which this stands.
    pub(crate) fn name_beside(&self, spot: &Spot, name: &str) -> String {
        let beside = Path::new(&self.sources[spot.source].name);
        beside.with_file_name(name).display().to_string()
    }

    /// Notes a mistake at a place in the text and in the tree.
    pub(crate) fn add<S: AsRef<str>>(
        &mut self,
        spot: Spot,
        path: &[S],
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let path = path.iter().map(|key| key.as_ref().to_owned()).collect();
        self.found.push(Found {
            spot,
            path,
            message: message.into(),
            help,
        });
    }

    /// Notes that a value breaks a rule. One mistake for a value is enough: the
    /// next may be no more than its consequence.
    pub(crate) fn broken<S: AsRef<str>>(
        &mut self,
        root: &Node,
        path: &[S],
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let known = self.found[self.unread..]
            .iter()
            .any(|found| begins_with(&found.path, path));
        if known || !self.was_read(path) {
            return;
        }
        let help = Some(help.into()).filter(|help| !help.is_empty());
        self.add(root.locate(path), path, message, help);
    }

    /// Notes that the name of a table, or its part in the whole, breaks a rule:
    /// independent of all that is wrong within it.
    pub(crate) fn misplaced(
        &mut self,
        root: &Node,
        path: &[String],
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.stands(path) {
            self.add(root.locate(path), path, message, Some(help.into()));
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// What stands at a place, if it is one.
    pub(crate) fn text_at(&self, spot: &Spot) -> &str {
        self.sources[spot.source]
            .text
            .get(spot.span.clone())
            .unwrap_or("")
    }

    /// Declares that all has been read; what is added now breaks rules.
    pub(crate) fn end_of_reading(&mut self) {
        self.unread = self.found.len();
    }

    /// Whether what stands at this path and below it could be read; `*` in it
    /// is any key. A rule about a stand-in would find what is not there.
    pub(crate) fn was_read<S: AsRef<str>>(&self, path: &[S]) -> bool {
        !self.unread().any(|unread| meets(unread, path))
    }

    /// Whether what stands at this path could be read, whatever is below it.
    pub(crate) fn stands(&self, path: &[String]) -> bool {
        !self.unread().any(|unread| begins_with(path, unread))
    }

    /// Whether the file has something at this path, or may have: a table that
    /// could not be read may have held it.
    pub(crate) fn may_exist(&self, root: &Node, path: &[&str]) -> bool {
        let mut node = Some(root);
        for key in path {
            node = node.and_then(|node| node.child(key));
        }
        node.is_some() || self.unread().any(|unread| begins_with(path, unread))
    }

    fn unread(&self) -> impl Iterator<Item = &[String]> {
        self.found[..self.unread]
            .iter()
            .map(|found| found.path.as_slice())
    }

    /// The texts, of a scenario without mistakes.
    pub(crate) fn into_sources(self) -> Vec<Source> {
        self.sources
    }

    pub(crate) fn into_errors(mut self) -> ScenarioErrors {
        self.found
            .sort_by_key(|found| (found.spot.source, found.spot.span.start));
        let mistakes = self.found.into_iter().map(|found| {
            let source = &self.sources[found.spot.source];
            let (line, column) = line_and_column(&source.text, found.spot.span.start);
            Mistake {
                origin: source.name.clone(),
                line,
                column,
                message: found.message,
                help: found.help,
                spot: found.spot,
                is_in_file: !source.is_set,
            }
        });
        ScenarioErrors {
            mistakes: mistakes.collect(),
            sources: self.sources,
        }
    }
}

/// Whether one of the two leads to the other.
fn meets<S: AsRef<str>>(unread: &[String], path: &[S]) -> bool {
    let same = |(have, want): (&String, &S)| want.as_ref() == "*" || have == want.as_ref();
    unread.iter().zip(path).all(same)
}

fn begins_with<A: AsRef<str>, B: AsRef<str>>(path: &[A], beginning: &[B]) -> bool {
    path.len() >= beginning.len()
        && path
            .iter()
            .zip(beginning)
            .all(|(have, want)| have.as_ref() == want.as_ref())
}

/// Both from 1. A position past the end stands after the last character.
fn line_and_column(text: &str, position: usize) -> (usize, usize) {
    let mut end = position.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}
