//! The directory of one run: what may be in it, how it is made and read.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use timeloom_time::{Instant, Utc};

use crate::parquet_file::TableWriter;
use crate::place;
use crate::recorder::lock_journal;
use crate::table::Row;
use crate::tree::{Tree, partial};
use crate::{
    Capture, Check, ClockRow, EventRow, LabelRow, Manifest, Outcome, Recorder, ResultsError,
    SignalRow, Topology, journal, parquet_file,
};

/// One run's directory.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    tree: Tree,
}

/// What became of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consolidated {
    /// Rows now in the Parquet files, all tables together.
    pub rows: u64,
    /// Journal lines that were no rows: the torn end after a kill.
    pub torn_lines: u64,
}

impl RunDirectory {
    /// Makes the directory of a new run, with its folders. An earlier run at the same path
    /// is refused, and so is a non-empty directory that is not a run, one of another user, or
    /// one in which others may write.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        Self::make(path.into(), false)
    }

    /// As [`RunDirectory::create`], in the place of an earlier run, if there is one: the
    /// files that a run consists of are removed, others stay.
    pub fn replace(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        Self::make(path.into(), true)
    }

    fn make(path: PathBuf, replaces: bool) -> Result<Self, ResultsError> {
        let tree = Tree::make(&path)?;
        let run = Self { tree };
        if run.is_run() {
            if !replaces {
                return Err(ResultsError::RunThere(run.path().to_owned()));
            }
            run.remove_earlier_run()?;
        } else if !run.tree.entries(".")?.is_empty() {
            return Err(ResultsError::NotARun(run.path().to_owned()));
        }
        for folder in FOLDERS {
            run.tree.make_folder(folder)?;
        }
        // The mark by which this directory is known as a run from now on.
        drop(lock_journal(&run.tree)?);
        Ok(run)
    }

    /// Opens an existing run for reading, finished or not.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        let path = path.into();
        match Tree::open(&path) {
            Ok(tree) => Some(Self { tree }).filter(Self::is_run),
            Err(ResultsError::Io { source, .. }) if is_no_directory(&source) => None,
            Err(error) => return Err(error),
        }
        .ok_or(ResultsError::NoRunHere(path))
    }

    /// Makes a run whole that was killed: builds the Parquet files from its
    /// journal and says `interrupted` in a manifest that still says `running`.
    /// On a run that is whole already it changes nothing.
    pub fn recover(path: impl Into<PathBuf>) -> Result<(Self, Consolidated), ResultsError> {
        let run = Self::open(path)?;
        if !run.tree.has("journal") {
            return Ok((run, Consolidated::default()));
        }
        let lock = lock_journal(&run.tree)?;
        // A run that was killed has not given it back.
        run.use_room_aside()?;
        let consolidated = consolidate(&run.tree)?;
        drop(lock);
        if let Ok(mut manifest) = run.manifest()
            && manifest.outcome == Outcome::Running
        {
            manifest.outcome = Outcome::Interrupted;
            manifest.culprit = Some(
                "the session was killed before it could finish; its journal was recovered".into(),
            );
            run.write_manifest(&manifest)?;
        }
        Ok((run, consolidated))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.tree.path()
    }

    /// Whether the tables are Parquet already.
    pub fn is_finished(&self) -> bool {
        !self.tree.has("journal")
    }

    /// Opens the tables for writing. One recorder per run at a time.
    pub fn recorder(&self) -> Result<Recorder, ResultsError> {
        Recorder::open(self.tree.clone())
    }

    /// Opens `logs/NAME` for what a program prints, to be written and read. Characters
    /// that do not belong in a file name become `_`, and a name that is taken gets a
    /// number. Returns the file's name in the directory as well.
    pub fn log(&self, name: &str) -> Result<(fs::File, String), ResultsError> {
        let (file, path) = self.create_new("logs", name, "log")?;
        let last = path.file_name().unwrap_or_default().to_string_lossy();
        Ok((file, format!("logs/{last}")))
    }

    /// Makes `files/NAME` for a program of another user, who may write there and nowhere
    /// else in this directory. The name is made one for a file, as that of a log.
    pub fn place_for(&self, name: &str, user: u32, group: u32) -> Result<PathBuf, ResultsError> {
        let path = place::make(&self.tree, &stem(name), user, group)?;
        std::path::absolute(&path).map_err(ResultsError::io(&path))
    }

    /// Sets room aside, without which a run whose disk is full could not say how it ended.
    ///
    /// # Errors
    /// There is no such room.
    pub fn set_room_aside(&self) -> Result<(), ResultsError> {
        let file = self.tree.begin(RESERVE)?;
        // Where room cannot be promised it is taken.
        let promised = match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES as u64) {
            Err(Errno::OPNOTSUPP) => (&file).write_all(&vec![0; RESERVE_BYTES]),
            other => other.map_err(io::Error::from),
        };
        promised.map_err(|error| {
            let _ = self.tree.remove(RESERVE);
            ResultsError::io(&self.tree.path_of(RESERVE))(error)
        })
    }

    /// Gives that room back; what is written next may have it.
    pub fn use_room_aside(&self) -> Result<(), ResultsError> {
        self.tree.remove(RESERVE)
    }

    /// The last lines of `logs/NAME.log`, at most `count` of them and of its last 16 KiB;
    /// none where there is no such log, or it cannot be read.
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
        // The first may be the end of one.
        let whole = text.lines().skip(usize::from(begin > 0));
        let mut lines: Vec<String> = whole.map(str::to_owned).collect();
        lines.drain(..lines.len().saturating_sub(count));
        lines
    }

    /// Keeps a copy of a file that went into the run; gives back where, as `inputs/NAME`.
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

    /// Writes `topology.json`.
    pub fn write_topology(&self, topology: &Topology) -> Result<(), ResultsError> {
        self.write_json("topology.json", topology)
    }

    /// Reads `topology.json`; `None` in a run without a simulated network.
    pub fn topology(&self) -> Result<Option<Topology>, ResultsError> {
        match self.tree.has("topology.json") {
            true => self.read_json("topology.json").map(Some),
            false => Ok(None),
        }
    }

    /// Opens `net/LINK.pcapng`. `session_start` is the civil time that
    /// programs see at virtual zero.
    pub fn capture(
        &self,
        link: &str,
        session_start: Instant<Utc>,
    ) -> Result<Capture<fs::File>, ResultsError> {
        let (file, path) = self.create_new("net", link, "pcapng")?;
        Capture::new(file, link, session_start).map_err(ResultsError::io(&path))
    }

    /// Writes `manifest.json`, replacing it whole.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        self.write_json("manifest.json", manifest)
    }

    /// Reads `manifest.json`.
    pub fn manifest(&self) -> Result<Manifest, ResultsError> {
        self.read_json("manifest.json")
    }

    /// Writes `checks.json`, replacing it whole.
    pub fn write_checks(&self, checks: &[Check]) -> Result<(), ResultsError> {
        self.write_json("checks.json", &checks)
    }

    /// Reads `checks.json`.
    pub fn checks(&self) -> Result<Vec<Check>, ResultsError> {
        self.read_json("checks.json")
    }

    /// Whether there is a `checks.json`.
    pub fn has_checks(&self) -> bool {
        self.tree.has("checks.json")
    }

    /// Writes `scenario.toml` (as checked, with defaults filled in).
    pub fn write_scenario(&self, text: &str) -> Result<(), ResultsError> {
        self.tree.replace("scenario.toml", text.as_bytes())
    }

    /// Writes `report.html`.
    pub fn write_report(&self, html: &str) -> Result<(), ResultsError> {
        self.tree.replace("report.html", html.as_bytes())
    }

    /// Calls `each` for every row of a table in the order of recording, which
    /// is the order of time up to the races between recording threads. Reads
    /// the Parquet file, or the journal when the run is not finished; holds at
    /// most one row group in memory. A table that is not there has no rows.
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

    /// All events.
    pub fn events(&self) -> Result<Vec<EventRow>, ResultsError> {
        self.all()
    }

    /// All changes of the virtual clock.
    pub fn clock(&self) -> Result<Vec<ClockRow>, ResultsError> {
        self.all()
    }

    /// All attacks, each once.
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

    /// A manifest alone may be anybody's file of that name, hence the look
    /// inside; the lock file exists from the first moment of a run, and all
    /// four tables from its last.
    fn is_run(&self) -> bool {
        let ours = |file: &fs::File| {
            let text = io::read_to_string(file);
            text.is_ok_and(|text| text.contains("\"timeloom_version\""))
        };
        self.tree.has("journal/lock")
            || matches!(self.tree.read("manifest.json"), Ok(Some(file)) if ours(&file))
            || TABLES.iter().all(|table| self.tree.has(&table_name(table)))
    }

    /// Removes the run, and its directory if nothing else is in it.
    ///
    /// # Errors
    /// What cannot be removed.
    pub fn discard(self) -> Result<(), ResultsError> {
        self.remove_earlier_run()?;
        for folder in FOLDERS.into_iter().chain([place::FILES]) {
            if self.tree.has(folder) {
                self.tree.remove_folder(folder)?;
            }
        }
        // Another's files stay, and so does their directory.
        let _ = fs::remove_dir(self.path());
        Ok(())
    }

    fn remove_earlier_run(&self) -> Result<(), ResultsError> {
        // Before anything is removed: whether it is what it looks like.
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
        place::remove_all(&self.tree)?;
        self.tree.remove_files("net")?;
        self.tree.remove_files("inputs")?;
        self.tree.remove_files("logs")
    }

    /// Program and link names come from outside: none of them may climb out of
    /// its folder, hide, or overwrite another's file.
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

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), ResultsError> {
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|error| ResultsError::malformed(&self.tree.path_of(name), error))?;
        text.push(b'\n');
        self.tree.replace(name, &text)
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, ResultsError> {
        let path = self.tree.path_of(name);
        let missing = || ResultsError::io(&path)(ErrorKind::NotFound.into());
        let file = self.tree.read(name)?.ok_or_else(missing)?;
        let text = io::read_to_string(file).map_err(ResultsError::io(&path))?;
        serde_json::from_str(&text).map_err(|error| ResultsError::malformed(&path, error))
    }
}

/// A name as that of a file, without what may not be in one.
fn stem(name: &str) -> String {
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

/// Builds the Parquet files from the journal, then removes the journal. May be
/// interrupted anywhere and run again: the journal goes last.
pub(crate) fn consolidate(tree: &Tree) -> Result<Consolidated, ResultsError> {
    let mut total = Consolidated::default();
    let done = consolidate_table::<SignalRow>(tree, &mut total)
        .and_then(|()| consolidate_table::<EventRow>(tree, &mut total))
        .and_then(|()| consolidate_table::<ClockRow>(tree, &mut total))
        .and_then(|()| consolidate_labels(tree, &mut total));
    if let Err(error) = done {
        // On a full disk others need the room: the manifest, for one.
        for table in TABLES {
            let _ = tree.remove(&partial(&table_name(table)));
        }
        return Err(error);
    }
    tree.remove_folder("journal")?;
    Ok(total)
}

fn consolidate_table<R: Row>(tree: &Tree, total: &mut Consolidated) -> Result<(), ResultsError> {
    let (from, to) = (journal_name(R::TABLE), table_name(R::TABLE));
    if !tree.has(&from) && tree.has(&to) {
        return Ok(()); // an earlier attempt got this far
    }
    let mut writer = TableWriter::create::<R>(tree, to)?;
    total.torn_lines += journal::read::<R>(tree, &from, |row| {
        total.rows += 1;
        writer.push(&row)
    })?;
    writer.close()
}

fn consolidate_labels(tree: &Tree, total: &mut Consolidated) -> Result<(), ResultsError> {
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

/// A label is written at its start and again at its end; the last one counts.
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

fn journal_name(table: &str) -> String {
    format!("journal/{table}.jsonl")
}

/// How much of a log's end is looked at for its last lines.
const LAST_BYTES: u64 = 16 * 1024;

const FOLDERS: [&str; 4] = ["net", "logs", "inputs", "journal"];

const TABLES: [&str; 4] = [
    SignalRow::TABLE,
    EventRow::TABLE,
    ClockRow::TABLE,
    LabelRow::TABLE,
];

/// Room for what a run has still to write when its disk is full: what the journal holds
/// in memory, the manifest and the checks.
const RESERVE: &str = "journal.reserve";
const RESERVE_BYTES: usize = 1 << 20;

/// What a run consists of besides its tables and folders.
const RUN_FILES: [&str; 6] = [
    "topology.json",
    RESERVE,
    "manifest.json",
    "scenario.toml",
    "checks.json",
    "report.html",
];
