//! Directory of one run: creation, reading, and the list of its contents.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read as _, Seek as _, Write};
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use timeloom_time::{Instant, Utc};

use crate::documents::JSON_BYTES;
use crate::folders::{PTP_KEYS, PYTHON, TIMELINES};
use crate::parquet_file::TableWriter;
use crate::place;
use crate::recorder::lock_journal;
use crate::table::Row;
use crate::tree::{Tree, partial};
use crate::{
    CaptureFile, ClockRow, EventRow, LabelRow, Outcome, Recorder, ResultsError, SignalRow, journal,
    parquet_file,
};

/// Directory of one run.
///
/// Other code opens, creates and removes the directory's files only by methods of this type. They
/// look up names from a descriptor of the directory, follow no symbolic link, open only regular
/// files, and read documents up to a maximum length. The path of the directory is for messages
/// only.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    pub(crate) tree: Tree,
}

/// Result of consolidating a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consolidation {
    /// Number of rows now in the Parquet files, all tables together.
    pub rows: u64,
    /// Number of invalid journal lines, such as the incomplete last line that a kill leaves.
    pub torn_lines: u64,
}

impl RunDirectory {
    /// Creates the directory of a new run, with its folders. Fails if the path has an earlier run,
    /// or a directory that contains other files. Also fails if the directory belongs to another
    /// user, or if other users may write there.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        Self::make(path.into(), false)
    }

    /// Creates a directory like [`RunDirectory::create`], but replaces an earlier run. The files of
    /// that run are removed; other files stay.
    pub fn replace(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        Self::make(path.into(), true)
    }

    fn make(path: PathBuf, replaces: bool) -> Result<Self, ResultsError> {
        let tree = Tree::make(&path)?;
        let run = Self { tree };
        if run.is_run() {
            if !replaces {
                return Err(ResultsError::RunThere(run.tree.path().to_owned()));
            }
            run.remove_earlier_run()?;
        } else if !run.tree.entries(".")?.is_empty() {
            return Err(ResultsError::NotARun(run.tree.path().to_owned()));
        }
        for folder in FOLDERS {
            run.tree.make_folder(folder)?;
        }
        // The lock file marks this directory as a run from here on.
        drop(lock_journal(&run.tree)?);
        Ok(run)
    }

    /// Opens an existing run for reading, whether it is finished or not.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        let path = path.into();
        match Tree::open(&path) {
            Ok(tree) => Self::of(tree),
            Err(ResultsError::Io { source, .. }) if is_no_directory(&source) => {
                Err(ResultsError::NoRunHere(path))
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the run in a directory that is already open.
    pub(crate) fn of(tree: Tree) -> Result<Self, ResultsError> {
        let run = Self { tree };
        match run.is_run() {
            true => Ok(run),
            false => Err(ResultsError::NoRunHere(run.tree.path().to_owned())),
        }
    }

    /// Completes a run that was killed: builds the Parquet files from the journal, and replaces
    /// `running` by `interrupted` in the manifest. Does nothing if the run is complete.
    pub fn recover(path: impl Into<PathBuf>) -> Result<(Self, Consolidation), ResultsError> {
        let run = Self::open(path)?;
        let consolidated = run.recovered()?;
        Ok((run, consolidated))
    }

    /// Recovers this run like [`Self::recover`].
    ///
    /// # Errors
    /// Fails if a process still writes the run, or the disk is full.
    pub fn recovered(&self) -> Result<Consolidation, ResultsError> {
        if !self.tree.has("journal") {
            return Ok(Consolidation::default());
        }
        let lock = lock_journal(&self.tree)?;
        // A run that was killed has not released its reserved space.
        self.use_room_aside()?;
        let consolidated = consolidate(&self.tree)?;
        drop(lock);
        if let Ok(mut manifest) = self.manifest()
            && manifest.outcome == Outcome::Running
        {
            manifest.outcome = Outcome::Interrupted;
            manifest.culprit = Some(
                "the session was killed before it could finish; its journal was recovered".into(),
            );
            self.write_manifest(&manifest)?;
        }
        Ok(consolidated)
    }

    /// Returns the directory's path for messages. Files are opened by methods of this type only,
    /// which check what they open.
    pub fn shown(&self) -> impl std::fmt::Display {
        self.tree.path().display()
    }

    /// Returns the last component of the directory's path, even if the path is given as `runs/..`
    /// or `.`.
    pub fn name(&self) -> String {
        let path = self.tree.path();
        let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = full.file_name().unwrap_or(full.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Writes a page as `FILE` into the directory that contains the run, and returns the page's
    /// path.
    ///
    /// # Errors
    /// Fails under the same conditions as [`crate::write_page`].
    pub fn write_beside(&self, file: &str, html: &str) -> Result<PathBuf, ResultsError> {
        let path = self.tree.path();
        // Paths such as `.` and `runs/..` do not name the directory that contains the run.
        let full = path.canonicalize().map_err(ResultsError::io(path))?;
        let plain = path.file_name().is_some();
        let page = if plain { path } else { &full }.with_file_name(file);
        crate::write_page(&page, html)?;
        Ok(page)
    }

    /// Returns the modification time of the folder of logs, which is close to the start of the run.
    pub fn begun(&self) -> Option<std::time::SystemTime> {
        let logs = fs::File::from(self.tree.folder("logs").ok()?);
        logs.metadata().ok()?.modified().ok()
    }

    /// Returns true if the run's tables have been converted to Parquet files.
    pub fn is_finished(&self) -> bool {
        !self.tree.has("journal")
    }

    /// Opens the tables for writing. A run has at most one recorder at a time.
    pub fn recorder(&self) -> Result<Recorder, ResultsError> {
        Recorder::open(self.tree.clone())
    }

    /// Creates `logs/NAME` for the output of a program, and opens it for writing and reading.
    /// Characters that are not allowed in a file name become `_`, and a number is added to a name
    /// that exists. Also returns the resulting file name.
    pub fn log(&self, name: &str) -> Result<(fs::File, String), ResultsError> {
        let (file, path) = self.create_new("logs", name, "log")?;
        let last = path.file_name().unwrap_or_default().to_string_lossy();
        Ok((file, format!("logs/{last}")))
    }

    /// Returns the names of the logs, sorted; empty if there is no folder of logs.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, or is a link.
    pub fn log_names(&self) -> Result<Vec<String>, ResultsError> {
        let entries = self.tree.entries("logs")?;
        let name = |(name, _): (OsString, bool)| {
            let name = name.into_string().ok()?;
            Some(name.strip_suffix(".log")?.to_owned())
        };
        let mut names: Vec<String> = entries.into_iter().filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Opens the log `name` for reading.
    ///
    /// # Errors
    /// Fails if there is no such log, or if it is not a regular file.
    pub fn open_log(&self, name: &str) -> Result<fs::File, ResultsError> {
        let path = format!("logs/{name}.log");
        let missing = || ResultsError::io(&self.tree.path_of(&path))(ErrorKind::NotFound.into());
        self.tree.read(&path)?.ok_or_else(missing)
    }

    /// Reserves disk space that allows a run to record its end even if the disk is full.
    ///
    /// # Errors
    /// Fails if the space is not available.
    pub fn set_room_aside(&self) -> Result<(), ResultsError> {
        let file = self.tree.begin(RESERVE)?;
        // If the file system has no fallocate, the space is filled with data.
        let promised = match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES as u64) {
            Err(Errno::OPNOTSUPP) => (&file).write_all(&vec![0; RESERVE_BYTES]),
            other => other.map_err(io::Error::from),
        };
        promised.map_err(|error| {
            let _ = self.tree.remove(RESERVE);
            ResultsError::io(&self.tree.path_of(RESERVE))(error)
        })
    }

    /// Releases the reserved space for the next writes.
    pub fn use_room_aside(&self) -> Result<(), ResultsError> {
        self.tree.remove(RESERVE)
    }

    /// Returns the last lines of `logs/NAME.log`: at most `count` lines, and at most 16 KiB of
    /// text. Empty if there is no such log, or it cannot be read.
    pub fn last_lines(&self, name: &str, count: usize) -> Vec<String> {
        let path = format!("logs/{}.log", stem(name));
        let Ok(Some(mut file)) = self.tree.read(&path) else {
            return Vec::new();
        };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let begin = length.saturating_sub(LAST_BYTES);
        let mut bytes = Vec::new();
        let read = file
            .seek(io::SeekFrom::Start(begin))
            .and_then(|_| file.take(LAST_BYTES).read_to_end(&mut bytes));
        if read.is_err() {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(&bytes);
        // If the read does not begin at the start of the file, the first line may be incomplete.
        let whole = text.lines().skip(usize::from(begin > 0));
        let mut lines: Vec<String> = whole.map(str::to_owned).collect();
        lines.drain(..lines.len().saturating_sub(count));
        lines
    }

    /// Stores a copy of an input file of the run, and returns the copy's path, as `inputs/NAME`.
    pub fn keep_input(&self, name: &str, content: &[u8]) -> Result<String, ResultsError> {
        let (name, extension) = match name.rsplit_once('.') {
            Some((name, extension)) if !name.is_empty() => (name, stem(extension)),
            _ => (name, "file".to_owned()),
        };
        let (mut file, path) = self.create_new("inputs", name, &extension)?;
        file.write_all(content).map_err(ResultsError::io(&path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("inputs/{name}"))
    }

    /// Creates `net/LINK.pcapng`. `session_start` is the civil time that programs see at virtual
    /// zero.
    pub fn capture(
        &self,
        link: &str,
        session_start: Instant<Utc>,
    ) -> Result<CaptureFile<fs::File>, ResultsError> {
        let (file, path) = self.create_new("net", link, "pcapng")?;
        CaptureFile::new(file, link, session_start).map_err(ResultsError::io(&path))
    }

    /// Calls `each` for every row of a table, in the order of recording. That is the order of time,
    /// except that threads which record at the same time may be swapped. Reads the Parquet file, or
    /// the journal if the run is not finished, and holds at most one row group in memory. A missing
    /// table has no rows.
    pub fn for_each<R: Row>(
        &self,
        mut each: impl FnMut(R) -> Result<(), ResultsError>,
    ) -> Result<(), ResultsError> {
        let table = table_name(R::TABLE);
        match self.tree.read(&table)? {
            Some(file) => parquet_file::read(file, &self.tree.path_of(&table), each),
            None => journal::read(&self.tree, &journal_name(R::TABLE), &mut each).map(drop),
        }
    }

    /// Returns all events.
    pub fn events(&self) -> Result<Vec<EventRow>, ResultsError> {
        self.all()
    }

    /// Returns all changes of the virtual clock.
    pub fn clock(&self) -> Result<Vec<ClockRow>, ResultsError> {
        self.all()
    }

    /// Returns all attacks, each once.
    pub fn labels(&self) -> Result<Vec<LabelRow>, ResultsError> {
        Ok(last_of_each(self.all()?))
    }

    fn all<R: Row>(&self) -> Result<Vec<R>, ResultsError> {
        let mut rows = Vec::new();
        self.for_each(|row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Returns true if the directory is a run. The lock file exists from the beginning of a run,
    /// and all four tables at its end. A manifest alone may be an unrelated file of that name, so
    /// its content is checked.
    fn is_run(&self) -> bool {
        let ours = |text: &String| text.contains("\"timeloom_version\"");
        let manifest = || self.tree.read_text("manifest.json", JSON_BYTES);
        self.tree.has("journal/lock")
            || matches!(manifest(), Ok(Some(text)) if ours(&text))
            || TABLES.iter().all(|table| self.tree.has(&table_name(table)))
    }

    /// Removes the run, and its directory if nothing else is in it.
    ///
    /// # Errors
    /// Fails if something cannot be removed.
    pub fn discard(self) -> Result<(), ResultsError> {
        self.remove_earlier_run()?;
        for folder in FOLDERS.into_iter().chain([place::FILES]) {
            if self.tree.has(folder) {
                self.tree.remove_folder(folder)?;
            }
        }
        // If files of other programs remain, the directory cannot be removed.
        let _ = fs::remove_dir(self.tree.path());
        Ok(())
    }

    fn remove_earlier_run(&self) -> Result<(), ResultsError> {
        // Before anything is removed, checks that the folders are directories and not links.
        for folder in FOLDERS.into_iter().filter(|folder| self.tree.has(folder)) {
            self.tree.make_folder(folder)?;
        }
        if self.tree.has("journal") {
            let lock = lock_journal(&self.tree)?;
            self.tree.remove_folder("journal")?;
            drop(lock);
        }
        for name in RUN_FILES {
            self.tree.remove(name)?;
        }
        for table in TABLES {
            self.tree.remove(&table_name(table))?;
        }
        for folder in GIVEN {
            self.tree.remove_all(folder)?;
        }
        self.remove_incoming()?;
        self.tree.remove_files("net")?;
        self.tree.remove_files("inputs")?;
        self.tree.remove_files("logs")
    }

    /// Creates a file in `folder`. Names of programs and links are untrusted: the file must not be
    /// outside of the folder, must not be hidden, and must not replace another file.
    fn create_new(
        &self,
        folder: &str,
        name: &str,
        extension: &str,
    ) -> Result<(fs::File, PathBuf), ResultsError> {
        let stem = stem(name);
        for number in 1.. {
            let suffix = if number == 1 {
                String::new()
            } else {
                format!("-{number}")
            };
            let name = format!("{folder}/{stem}{suffix}.{extension}");
            match self.tree.create_new(&name) {
                Err(ResultsError::Io { source, .. })
                    if source.kind() == ErrorKind::AlreadyExists => {}
                result => return result.map(|file| (file, self.tree.path_of(&name))),
            }
        }
        unreachable!("more files than numbers")
    }
}

/// Converts a name to a file name, replacing characters that are not allowed.
pub(crate) fn stem(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let letters = name.chars().take(100);
    let mut stem: String = letters.map(|c| if plain(c) { c } else { '_' }).collect();
    if stem.is_empty() || stem.starts_with('.') {
        stem.insert(0, '_');
    }
    stem
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Builds the Parquet files from the journal, then removes the journal. If interrupted, may be
/// repeated, because the journal is removed last.
pub(crate) fn consolidate(tree: &Tree) -> Result<Consolidation, ResultsError> {
    let mut total = Consolidation::default();
    let done = consolidate_table::<SignalRow>(tree, &mut total)
        .and_then(|()| consolidate_table::<EventRow>(tree, &mut total))
        .and_then(|()| consolidate_table::<ClockRow>(tree, &mut total))
        .and_then(|()| consolidate_labels(tree, &mut total));
    if let Err(error) = done {
        // On a full disk, files such as the manifest need the space more than partial tables.
        for table in TABLES {
            let _ = tree.remove(&partial(&table_name(table)));
        }
        return Err(error);
    }
    tree.remove_folder("journal")?;
    Ok(total)
}

fn consolidate_table<R: Row>(tree: &Tree, total: &mut Consolidation) -> Result<(), ResultsError> {
    let (from, to) = (journal_name(R::TABLE), table_name(R::TABLE));
    if !tree.has(&from) && tree.has(&to) {
        return Ok(()); // an earlier attempt has written the table
    }
    let mut writer = TableWriter::create::<R>(tree, to)?;
    total.torn_lines += journal::read::<R>(tree, &from, |row| {
        total.rows += 1;
        writer.push(&row)
    })?;
    writer.close()
}

fn consolidate_labels(tree: &Tree, total: &mut Consolidation) -> Result<(), ResultsError> {
    let (from, to) = (journal_name(LabelRow::TABLE), table_name(LabelRow::TABLE));
    if !tree.has(&from) && tree.has(&to) {
        return Ok(());
    }
    let mut rows = Vec::new();
    total.torn_lines += journal::read::<LabelRow>(tree, &from, |row| {
        rows.push(row);
        Ok(())
    })?;
    let mut writer = TableWriter::create::<LabelRow>(tree, to)?;
    for row in last_of_each(rows) {
        total.rows += 1;
        writer.push(&row)?;
    }
    writer.close()
}

/// Returns the last row of each label. A label is written at the start of an attack and again at
/// the end.
fn last_of_each(rows: Vec<LabelRow>) -> Vec<LabelRow> {
    let mut kept: Vec<LabelRow> = Vec::new();
    for row in rows {
        let same =
            |k: &LabelRow| k.start == row.start && k.target == row.target && k.attack == row.attack;
        match kept.iter().position(same) {
            Some(at) => kept[at] = row,
            None => kept.push(row),
        }
    }
    kept
}

fn table_name(table: &str) -> String {
    format!("{table}.parquet")
}

pub(crate) fn journal_name(table: &str) -> String {
    format!("journal/{table}.jsonl")
}

/// Number of bytes at the end of a log that are searched for its last lines.
const LAST_BYTES: u64 = 16 * 1024;

const FOLDERS: [&str; 4] = ["net", "logs", "inputs", "journal"];

/// Folders in which programs write.
const GIVEN: [&str; 4] = [place::FILES, PYTHON, TIMELINES, PTP_KEYS];

const TABLES: [&str; 4] = [
    SignalRow::TABLE,
    EventRow::TABLE,
    ClockRow::TABLE,
    LabelRow::TABLE,
];

/// File that reserves disk space. If the disk is full at the end of a run, the space is used for
/// the journal rows in memory, the manifest and the checks.
const RESERVE: &str = "journal.reserve";
const RESERVE_BYTES: usize = 1 << 20;

/// Names of a run's files, without its tables and folders.
const RUN_FILES: [&str; 6] = [
    "topology.json",
    RESERVE,
    "manifest.json",
    "scenario.toml",
    "checks.json",
    "report.html",
];
