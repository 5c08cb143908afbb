//! Mistakes in a scenario. They are collected while the scenario is read, and returned together.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::tree::{Node, Spot};

/// Errors of an invalid scenario: one or more mistakes, in file order. `Display` prints one line
/// for each mistake; [`ScenarioErrors::render`] also shows the text around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioErrors {
    pub(crate) sources: Vec<Source>,
    pub(crate) mistakes: Vec<Mistake>,
    /// Lower bound of the number of mistakes beyond [`ScenarioErrors::MOST`].
    left_out: usize,
}

/// Mistake in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Source of the mistake: the file's name, or `--set KEY=VALUE`.
    pub origin: String,
    /// Line in the file, counted from 1; 0 if the file could not be read.
    pub line: usize,
    /// Column in the line, in characters counted from 1; 0 if the file could not be read.
    pub column: usize,
    /// Error message.
    pub message: String,
    /// Suggested fix, if known.
    pub help: Option<String>,
    pub(crate) spot: Spot,
    is_in_file: bool,
}

/// Text that may contain mistakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    is_set: bool,
    /// Directory from which the text was read; `None` if it was not read from a file.
    directory: Option<PathBuf>,
    /// Position at which another file names this one; `None` unless the content must not be shown.
    hidden: Option<Spot>,
}

impl Source {
    /// Maximum size of a file, in bytes. A scenario with thousands of hosts takes some megabytes.
    pub(crate) const MOST_BYTES: u64 = 64 << 20;

    pub(crate) fn file(name: &str, text: &str, directory: Option<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            is_set: false,
            directory,
            hidden: None,
        }
    }

    /// Hides the content of the source. Its mistakes are shown at `named` instead.
    pub(crate) fn hidden(self, named: Spot) -> Self {
        let hidden = Some(named);
        Self { hidden, ..self }
    }

    pub(crate) fn set(text: &str) -> Self {
        Self {
            name: format!("--set {text}"),
            text: text.to_owned(),
            is_set: true,
            directory: None,
            hidden: None,
        }
    }

    /// Returns the name of the source in messages; `--set` for every override.
    pub(crate) fn origin(&self) -> &str {
        if self.is_set { "--set" } else { &self.name }
    }
}

impl ScenarioErrors {
    /// Maximum number of mistakes that are collected. Further ones are only counted.
    pub const MOST: usize = 100;

    /// Returns the mistakes in file order, then those of the overrides. If there are more than
    /// [`Self::MOST`], a last entry states the number of the others.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    /// Returns a lower bound of the number of mistakes. Rules are not applied to values that could
    /// not be read, nor to any value once there are too many mistakes.
    pub fn count(&self) -> usize {
        match self.left_out {
            0 => self.mistakes.len(),
            left_out => self.mistakes.len() - 1 + left_out,
        }
    }

    /// Returns true if [`Self::count`] is the exact number of mistakes.
    pub fn is_complete(&self) -> bool {
        self.left_out == 0
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
            left_out: 0,
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

/// Mistakes found so far.
pub(crate) struct Report {
    sources: Vec<Source>,
    found: Vec<Found>,
    /// Number of values that could not be read; they are the first entries in `found`.
    unread: usize,
    /// Number of mistakes that were not stored because `found` was full.
    left_out: usize,
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
            left_out: 0,
        }
    }

    /// Adds a source text, and returns its index.
    pub(crate) fn add_source(&mut self, source: Source) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Returns the directory of the scenario's own file.
    pub(crate) fn top(&self) -> &Path {
        let top = self.sources[0].directory.as_deref();
        top.unwrap_or(Path::new("."))
    }

    /// Returns true if the value at this position comes from the command line.
    pub(crate) fn is_set(&self, spot: &Spot) -> bool {
        self.sources[spot.source].is_set
    }

    /// Returns the directory of the file that contains this position; `None` if no file contains
    /// it.
    pub(crate) fn directory(&self, spot: &Spot) -> Option<&Path> {
        self.sources[spot.source].directory.as_deref()
    }

    /// Returns the name under which messages show a file. `name` is relative to the file that
    /// contains `spot`.
    pub(crate) fn name_beside(&self, spot: &Spot, name: &str) -> String {
        let beside = Path::new(&self.sources[spot.source].name);
        beside.with_file_name(name).display().to_string()
    }

    /// Records a mistake. `spot` is its position in the text, and `path` its position in the tree.
    pub(crate) fn add<S: AsRef<str>>(
        &mut self,
        spot: Spot,
        path: &[S],
        message: impl Into<String>,
        help: Option<String>,
    ) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        let path = path.iter().map(|key| key.as_ref().to_owned()).collect();
        self.found.push(Found {
            spot,
            path,
            message: message.into(),
            help,
        });
    }

    /// Records that a value breaks a rule. Further mistakes in the same value are not recorded,
    /// because they may be consequences of the first.
    pub(crate) fn broken<S: AsRef<str>>(
        &mut self,
        root: &Node,
        path: &[S],
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        let known = self.found[self.unread..]
            .iter()
            .any(|found| begins_with(&found.path, path));
        if known || !self.was_read(path) {
            return;
        }
        let help = Some(help.into()).filter(|help| !help.is_empty());
        self.add(root.locate(path), path, message, help);
    }

    /// Records that the name or the role of a table breaks a rule, even if values in the table have
    /// mistakes.
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

    /// Returns true if no more mistakes are collected. The mistake that causes another one may then
    /// be unknown.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= ScenarioErrors::MOST
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the text at a position; empty if the position is not valid.
    pub(crate) fn text_at(&self, spot: &Spot) -> &str {
        self.sources[spot.source]
            .text
            .get(spot.span.clone())
            .unwrap_or("")
    }

    /// Ends the reading phase. Mistakes that are added later are violations of rules.
    pub(crate) fn end_of_reading(&mut self) {
        self.unread = self.found.len();
    }

    /// Returns true if the value at this path, and every value below it, could be read. `*` in the
    /// path matches any key. Values that could not be read have placeholders, to which no rule must
    /// be applied.
    pub(crate) fn was_read<S: AsRef<str>>(&self, path: &[S]) -> bool {
        !self.unread().any(|unread| meets(unread, path))
    }

    /// Returns true if the value at this path could be read, whatever is below it.
    pub(crate) fn stands(&self, path: &[String]) -> bool {
        !self.unread().any(|unread| begins_with(path, unread))
    }

    /// Returns true if the file has, or may have, a value at this path. A table that could not be
    /// read may have contained it.
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

    /// Returns the texts of a scenario that has no mistakes.
    pub(crate) fn into_sources(self) -> Vec<Source> {
        self.sources
    }

    pub(crate) fn into_errors(mut self) -> ScenarioErrors {
        self.hide();
        self.found
            .sort_by_key(|found| (found.spot.source, found.spot.span.start));
        let lines: Vec<Lines> = self.sources.iter().map(|it| Lines::of(&it.text)).collect();
        let mistakes = self.found.into_iter().map(|found| {
            let source = &self.sources[found.spot.source];
            let position = found.spot.span.start;
            let (line, column) = lines[found.spot.source].place(&source.text, position);
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
        let mut mistakes: Vec<Mistake> = mistakes.collect();
        if self.left_out > 0 {
            mistakes.push(Mistake {
                origin: self.sources[0].name.clone(),
                line: 0,
                column: 0,
                message: format!("at least {} more mistakes follow", self.left_out),
                help: Some("fix these first: others may be their consequences".to_owned()),
                spot: Spot::default(),
                is_in_file: true,
            });
        }
        ScenarioErrors {
            mistakes,
            sources: self.sources,
            left_out: self.left_out,
        }
    }

    /// Replaces all mistakes in a hidden file by one, at the position at which the file is named.
    fn hide(&mut self) {
        let (shown, hidden) = std::mem::take(&mut self.found)
            .into_iter()
            .partition(|found| self.sources[found.spot.source].hidden.is_none());
        self.found = shown;
        let hidden: Vec<Found> = hidden;
        let mut named: Vec<usize> = hidden.iter().map(|found| found.spot.source).collect();
        named.sort_unstable();
        named.dedup();
        for source in named {
            let name = self.sources[source].name.clone();
            let mut spot = Spot::default();
            let mut next = Some(source);
            // That position may be in another hidden file.
            while let Some(place) = next.and_then(|it| self.sources[it].hidden.clone()) {
                next = Some(place.source);
                spot = place;
            }
            self.found.push(Found {
                spot,
                path: Vec::new(),
                message: format!("`{name}` contains a mistake, or conflicts with this file"),
                help: Some(format!(
                    "it lies outside of the scenario's directory, so nothing of it is shown: \
                     copy it to there, or see `timeloom check {name}`"
                )),
            });
        }
    }
}

/// Returns true if one of the two paths is a prefix of the other.
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

/// Byte offsets at which the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let begins = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(begins).collect())
    }

    /// Returns line and column of a position, both counted from 1. A position beyond the end of the
    /// text has the column after the last character.
    fn place(&self, text: &str, position: usize) -> (usize, usize) {
        let mut end = position.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let line = self.0.partition_point(|begin| *begin <= end);
        let begin = self.0[line - 1];
        (line, text[begin..end].chars().count() + 1)
    }
}
