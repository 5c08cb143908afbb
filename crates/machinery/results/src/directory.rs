//! The directory of one run: what may be in it, how it is made and read.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use timeloom_time::{Instant, Utc, Virtual};

use crate::parquet_file::TableWriter;
use crate::recorder::lock_journal;
use crate::table::Row;
use crate::{
    Capture, Check, ClockRow, EventRow, LabelRow, LogWriter, Manifest, Outcome, Recorder,
    ResultsError, SignalRow, journal, parquet_file,
};

/// One run's directory.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
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
    /// Makes the directory of a new run, with `net/` and `logs/`. An earlier
    /// run at the same path is replaced (only the files that a run consists of
    /// are removed); a non-empty directory that is not a run is refused.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        let run = Self { path: path.into() };
        fs::create_dir_all(&run.path).map_err(ResultsError::io(&run.path))?;
        if run.is_run() {
            run.remove_earlier_run()?;
        } else if fs::read_dir(&run.path)
            .map_err(ResultsError::io(&run.path))?
            .next()
            .is_some()
        {
            return Err(ResultsError::NotARun(run.path));
        }
        for folder in ["net", "logs", "journal"] {
            let folder = run.path.join(folder);
            fs::create_dir_all(&folder).map_err(ResultsError::io(&folder))?;
        }
        // The mark by which this directory is known as a run from now on.
        drop(lock_journal(&run.path)?);
        Ok(run)
    }

    /// Opens an existing run for reading, finished or not.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        let run = Self { path: path.into() };
        if run.is_run() {
            Ok(run)
        } else {
            Err(ResultsError::NoRunHere(run.path))
        }
    }

    /// Makes a run whole that was killed: builds the Parquet files from its
    /// journal and says `interrupted` in a manifest that still says `running`.
    /// On a run that is whole already it changes nothing.
    pub fn recover(path: impl Into<PathBuf>) -> Result<(Self, Consolidated), ResultsError> {
        let run = Self::open(path)?;
        if !run.path.join("journal").is_dir() {
            return Ok((run, Consolidated::default()));
        }
        let lock = lock_journal(&run.path)?;
        let consolidated = consolidate(&run.path)?;
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
        &self.path
    }

    /// Whether the tables are Parquet already.
    pub fn is_finished(&self) -> bool {
        !self.path.join("journal").exists()
    }

    /// Opens the tables for writing. One recorder per run at a time.
    pub fn recorder(&self) -> Result<Recorder, ResultsError> {
        Recorder::open(self.path.clone())
    }

    /// Opens `logs/NAME` for what a program prints; each line is stamped by
    /// `now`. Characters that do not belong in a file name become `_`, and a
    /// name that is taken gets a number.
    pub fn log<F: FnMut() -> Instant<Virtual>>(
        &self,
        name: &str,
        now: F,
    ) -> Result<LogWriter<fs::File, F>, ResultsError> {
        let (file, _) = self.create_new("logs", name, "log")?;
        Ok(LogWriter::new(file, now))
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

    /// Writes `scenario.toml` (as checked, with defaults filled in).
    pub fn write_scenario(&self, text: &str) -> Result<(), ResultsError> {
        self.replace("scenario.toml", text.as_bytes())
    }

    /// Writes `report.html`.
    pub fn write_report(&self, html: &str) -> Result<(), ResultsError> {
        self.replace("report.html", html.as_bytes())
    }

    /// Calls `each` for every row of a table in the order of recording, which
    /// is the order of time up to the races between recording threads. Reads
    /// the Parquet file, or the journal when the run is not finished; holds at
    /// most one row group in memory. A table that is not there has no rows.
    pub fn for_each<R: Row>(
        &self,
        mut each: impl FnMut(R) -> Result<(), ResultsError>,
    ) -> Result<(), ResultsError> {
        let table = self.table_path(R::TABLE);
        if table.exists() {
            parquet_file::read(&table, each)
        } else {
            journal::read(&self.journal_path(R::TABLE), &mut each).map(drop)
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
        let ours = |text: String| text.contains("\"timeloom_version\"");
        self.path.join("journal/lock").exists()
            || fs::read_to_string(self.path.join("manifest.json")).is_ok_and(ours)
            || TABLES.iter().all(|table| self.table_path(table).exists())
    }

    fn remove_earlier_run(&self) -> Result<(), ResultsError> {
        let journal = self.path.join("journal");
        if journal.is_dir() {
            let lock = lock_journal(&self.path)?;
            fs::remove_dir_all(&journal).map_err(ResultsError::io(&journal))?;
            drop(lock);
        }
        let mut files: Vec<PathBuf> = RUN_FILES.iter().map(|name| self.path.join(name)).collect();
        files.extend(TABLES.map(|table| self.table_path(table)));
        for folder in ["net", "logs"] {
            let entries = fs::read_dir(self.path.join(folder))
                .into_iter()
                .flatten()
                .flatten();
            files.extend(
                entries
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
                    .map(|e| e.path()),
            );
        }
        for file in files {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(ResultsError::io(&file)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn table_path(&self, table: &str) -> PathBuf {
        table_path(&self.path, table)
    }

    fn journal_path(&self, table: &str) -> PathBuf {
        journal_path(&self.path, table)
    }

    /// Program and link names come from outside: none of them may climb out of
    /// its folder, hide, or overwrite another's file.
    fn create_new(
        &self,
        folder: &str,
        name: &str,
        extension: &str,
    ) -> Result<(fs::File, PathBuf), ResultsError> {
        let mut stem: String = name
            .chars()
            .take(100)
            .map(|c| {
                if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        if stem.is_empty() || stem.starts_with('.') {
            stem.insert(0, '_');
        }
        for number in 1.. {
            let suffix = if number == 1 {
                String::new()
            } else {
                format!("-{number}")
            };
            let path = self
                .path
                .join(folder)
                .join(format!("{stem}{suffix}.{extension}"));
            match fs::File::create_new(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                result => {
                    return result
                        .map(|file| (file, path.clone()))
                        .map_err(ResultsError::io(&path));
                }
            }
        }
        unreachable!("more files than numbers")
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), ResultsError> {
        let path = self.path.join(name);
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|error| ResultsError::malformed(&path, error))?;
        text.push(b'\n');
        self.replace(name, &text)
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, ResultsError> {
        let path = self.path.join(name);
        let text = fs::read(&path).map_err(ResultsError::io(&path))?;
        serde_json::from_slice(&text).map_err(|error| ResultsError::malformed(&path, error))
    }

    /// By way of a second file: a reader sees the old text or the new, whole.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ResultsError> {
        let (path, partial) = (
            self.path.join(name),
            self.path.join(format!("{name}.partial")),
        );
        fs::write(&partial, bytes).map_err(ResultsError::io(&partial))?;
        fs::rename(&partial, &path).map_err(ResultsError::io(&path))
    }
}

/// Builds the Parquet files from the journal, then removes the journal. May be
/// interrupted anywhere and run again: the journal goes last.
pub(crate) fn consolidate(directory: &Path) -> Result<Consolidated, ResultsError> {
    let mut total = Consolidated::default();
    consolidate_table::<SignalRow>(directory, &mut total)?;
    consolidate_table::<EventRow>(directory, &mut total)?;
    consolidate_table::<ClockRow>(directory, &mut total)?;
    consolidate_labels(directory, &mut total)?;
    let journal = directory.join("journal");
    fs::remove_dir_all(&journal).map_err(ResultsError::io(&journal))?;
    Ok(total)
}

fn consolidate_table<R: Row>(
    directory: &Path,
    total: &mut Consolidated,
) -> Result<(), ResultsError> {
    let (from, to) = (
        journal_path(directory, R::TABLE),
        table_path(directory, R::TABLE),
    );
    if !from.exists() && to.exists() {
        return Ok(()); // an earlier attempt got this far
    }
    let mut writer = TableWriter::create::<R>(&to)?;
    total.torn_lines += journal::read::<R>(&from, |row| {
        total.rows += 1;
        writer.push(&row)
    })?;
    writer.close()
}

fn consolidate_labels(directory: &Path, total: &mut Consolidated) -> Result<(), ResultsError> {
    let (from, to) = (
        journal_path(directory, LabelRow::TABLE),
        table_path(directory, LabelRow::TABLE),
    );
    if !from.exists() && to.exists() {
        return Ok(());
    }
    let mut rows = Vec::new();
    total.torn_lines += journal::read::<LabelRow>(&from, |row| {
        rows.push(row);
        Ok(())
    })?;
    let mut writer = TableWriter::create::<LabelRow>(&to)?;
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

fn table_path(directory: &Path, table: &str) -> PathBuf {
    directory.join(format!("{table}.parquet"))
}

fn journal_path(directory: &Path, table: &str) -> PathBuf {
    directory.join("journal").join(format!("{table}.jsonl"))
}

const TABLES: [&str; 4] = [
    SignalRow::TABLE,
    EventRow::TABLE,
    ClockRow::TABLE,
    LabelRow::TABLE,
];

/// What a run consists of besides its tables and folders.
const RUN_FILES: [&str; 4] = [
    "manifest.json",
    "scenario.toml",
    "checks.json",
    "report.html",
];
