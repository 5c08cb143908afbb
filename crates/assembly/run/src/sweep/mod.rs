//! Implementation of `timeloom sweep`: runs a scenario with every combination of values and every
//! seed, and stores the runs, a table and a page in one directory.
//!
//! A sweep that was stopped can be continued. Runs whose manifest records an end are kept; runs
//! that were interrupted are started anew.

mod jobs;
mod page;
mod points;
mod table;

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use timeloom_results::{ResultsError, SweepDirectory, sha256_file};

pub use jobs::{default_jobs, processors};
pub use page::{by_values, not_passed};
pub use points::{Axis, NoAxis, SweepPoint, points};
pub use table::{RunEnd, SweepRow};

/// Parameters of a sweep.
#[derive(Clone, Debug)]
pub struct SweepRequest {
    /// The scenario file.
    pub scenario: PathBuf,
    /// Name of the scenario, for the page.
    pub name: String,
    /// The runs of the sweep, in order.
    pub points: Vec<SweepPoint>,
    /// Directory for the runs, the table and the page.
    pub directory: PathBuf,
    /// Number of concurrent runs.
    pub jobs: usize,
    /// True if runs that failed in an earlier call are repeated.
    pub retry_failed: bool,
    /// Path of the program `timeloom`, which is started for each run.
    pub timeloom: PathBuf,
    /// True if the runs write their logs as JSON.
    pub log_json: bool,
}

/// Result of a call of [`sweep`].
#[derive(Clone, Debug)]
pub struct SweepResult {
    /// A row for each run, in the order of the points.
    pub rows: Vec<SweepRow>,
    /// Number of rows whose runs were finished by earlier calls.
    pub kept: usize,
    /// Path of the table.
    pub table: PathBuf,
    /// Path of the page.
    pub page: PathBuf,
}

/// Error that prevents a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The directory contains another sweep, or something else.
    #[error("{directory} has {what} in it; nothing was touched, choose another directory")]
    Taken {
        /// Directory.
        directory: PathBuf,
        /// Description of the content that the directory has instead.
        what: &'static str,
    },
    /// An operation on a file of the sweep failed.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// An operation on the directory, or on a file in it, failed.
    #[error(transparent)]
    Results(#[from] ResultsError),
}

impl SweepError {
    /// Returns true if the user's request is wrong, false if an operation on this machine failed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Taken { .. })
    }
}

/// Executes the runs that are not finished yet, then writes the table and the page. After each run,
/// `done` is called with its row, the number of finished runs and the total. When `interrupted` is
/// set, active runs are stopped as well; the next call starts them anew.
///
/// # Errors
/// Returns an error if the directory contains something else, or if files cannot be written. A run
/// that fails is reported in its row, not as an error.
pub fn sweep(
    request: &SweepRequest,
    interrupted: &AtomicBool,
    done: impl Fn(&SweepRow, usize, usize) + Sync,
) -> Result<SweepResult, SweepError> {
    let directory = &claim(request)?;
    let before: Vec<SweepRow> = request
        .points
        .iter()
        .map(|point| SweepRow::read(point, directory))
        .collect();
    let kept =
        |row: &&SweepRow| row.is_done() && !(request.retry_failed && row.ended != RunEnd::Passed);
    let count = before.iter().filter(kept).count();
    let left: Vec<SweepPoint> = before
        .iter()
        .filter(|row| !kept(row))
        .map(|row| row.point.clone())
        .collect();
    let (finished, total) = (AtomicUsize::new(count), request.points.len());
    let trouble = Mutex::new(None);
    jobs::side_by_side(&left, request.jobs, interrupted, |point| {
        if let Err(error) = run(request, directory, point, interrupted) {
            trouble.lock().get_or_insert(error);
            return;
        }
        let row = SweepRow::read(point, directory);
        let number = match row.is_done() {
            true => finished.fetch_add(1, Ordering::Relaxed) + 1,
            false => finished.load(Ordering::Relaxed),
        };
        done(&row, number, total);
    });
    if let Some(error) = trouble.into_inner() {
        return Err(error);
    }
    let rows: Vec<SweepRow> = request
        .points
        .iter()
        .map(|point| SweepRow::read(point, directory))
        .collect();
    Ok(SweepResult {
        table: directory.write_table(&table::columns(&rows))?,
        page: directory.write_page(&page::page(&request.name, directory, &rows))?,
        rows,
        kept: count,
    })
}

/// Writes the definition of this sweep to its directory, or checks that the directory has the same
/// definition.
fn claim(request: &SweepRequest) -> Result<SweepDirectory, SweepError> {
    let sha256 = sha256_file(&request.scenario).map_err(file(&request.scenario))?;
    let definition = points::definition(&request.scenario, &sha256, &request.points);
    let taken = |what| SweepError::Taken {
        directory: request.directory.clone(),
        what,
    };
    let directory = SweepDirectory::make(&request.directory)?;
    if let Some(text) = directory.definition()? {
        let found: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let same =
            |key: &str| found.as_ref().and_then(|found| found.get(key)) == definition.get(key);
        // The scenario's path is not compared, because it differs when seen from another directory.
        if !["schema", "scenario_sha256", "runs"].into_iter().all(same) {
            return Err(taken(
                "another sweep, or one of a scenario that was changed",
            ));
        }
    } else if !directory.is_empty()? {
        return Err(taken("something other than a sweep"));
    }
    directory.make_folders()?;
    directory.write_definition(&format!("{definition:#}\n"))?;
    Ok(directory)
}

fn run(
    request: &SweepRequest,
    directory: &SweepDirectory,
    point: &SweepPoint,
    interrupted: &AtomicBool,
) -> Result<(), SweepError> {
    // Interrupted runs, and runs that are to be repeated, are started anew. A run of a killed sweep
    // may still be active; it is then left alone, and the new run reports that.
    if directory.run(&point.name).is_ok() {
        directory.remove_run(&point.name)?;
    }
    let number = point.name.split('_').next().unwrap_or(&point.name);
    let mut command = Command::new(&request.timeloom);
    command
        .args(request.log_json.then_some("--log-json"))
        .arg("run")
        .arg(&request.scenario)
        .arg("-o")
        .arg(directory.run_path(&point.name));
    command.args(["--name", &format!("sweep-{}-{number}", std::process::id())]);
    command.args(point.sets().iter().flat_map(|set| ["--set", set]));
    let console = directory.console(&point.name)?;
    jobs::to_its_end(&mut command, console, interrupted).map_err(file(&request.timeloom))
}

fn file(path: &Path) -> impl FnOnce(std::io::Error) -> SweepError + use<> {
    let path = path.to_owned();
    move |error| SweepError::File { path, error }
}
