//! `timeloom sweep`: a scenario with every combination of values and every seed, as one
//! directory of runs, a table and a page.
//!
//! A sweep that was stopped goes on where it was: a run is done when its manifest says so,
//! and what else there is of it is begun anew.

mod jobs;
mod page;
mod points;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use timeloom_results::{ResultsError, SweepDirectory, sha256_file};

pub use jobs::{default_jobs, processors};
pub use page::{by_values, not_passed};
pub use points::{Axis, NoAxis, Point, points};
pub use table::{Ended, Row};

/// What is to be swept.
#[derive(Clone, Debug)]
pub struct SweepRequest {
    /// The scenario file.
    pub scenario: PathBuf,
    /// Its name, for the page.
    pub name: String,
    /// The runs.
    pub points: Vec<Point>,
    /// Where everything goes.
    pub directory: PathBuf,
    /// How many runs go side by side.
    pub jobs: usize,
    /// Whether runs that failed are run again.
    pub retry_failed: bool,
    /// This program, which is started for each run.
    pub timeloom: PathBuf,
}

/// What became of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// A row for each run, in the order of the points.
    pub rows: Vec<Row>,
    /// How many of them had been run before.
    pub kept: usize,
    /// The table.
    pub table: PathBuf,
    /// The page.
    pub page: PathBuf,
}

/// Why a sweep could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The directory has another sweep in it, or something else.
    #[error("{directory} has {what} in it; nothing was touched, choose another directory")]
    Taken {
        /// Where.
        directory: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// A file of the sweep.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The directory, or a file in it, failed.
    #[error(transparent)]
    Results(#[from] ResultsError),
}

impl SweepError {
    /// Whether it is the user's mistake.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Taken { .. })
    }
}

/// Runs what is not done yet, then writes table and page. `done` is told each run that has
/// ended, and how many are done of how many. Stops when `interrupted` is set; the runs
/// under way are stopped too, and the next call begins them anew.
///
/// # Errors
/// A directory with something else in it, or files that cannot be written. A run that
/// fails is a row.
pub fn sweep(
    request: &SweepRequest,
    interrupted: &AtomicBool,
    done: impl Fn(&Row, usize, usize) + Sync,
) -> Result<Swept, SweepError> {
    let directory = &claim(request)?;
    let before: Vec<Row> = request
        .points
        .iter()
        .map(|point| Row::read(point, directory))
        .collect();
    let kept = |row: &&Row| row.is_done() && !(request.retry_failed && row.ended != Ended::Passed);
    let count = before.iter().filter(kept).count();
    let left: Vec<Point> = before
        .iter()
        .filter(|row| !kept(row))
        .map(|row| row.point.clone())
        .collect();
    let (finished, total) = (AtomicUsize::new(count), request.points.len());
    let trouble = Mutex::new(None);
    jobs::side_by_side(&left, request.jobs, interrupted, |point| {
        if let Err(error) = run(request, directory, point, interrupted) {
            if let Ok(mut trouble) = trouble.lock() {
                trouble.get_or_insert(error);
            }
            return;
        }
        let row = Row::read(point, directory);
        let number = match row.is_done() {
            true => finished.fetch_add(1, Ordering::Relaxed) + 1,
            false => finished.load(Ordering::Relaxed),
        };
        done(&row, number, total);
    });
    if let Ok(Some(error)) = trouble.into_inner() {
        return Err(error);
    }
    let rows: Vec<Row> = request
        .points
        .iter()
        .map(|point| Row::read(point, directory))
        .collect();
    Ok(Swept {
        table: directory.write_table(&table::columns(&rows))?,
        page: directory.write_page(&page::page(&request.name, directory, &rows))?,
        rows,
        kept: count,
    })
}

/// Makes the directory this sweep's, or finds that it is.
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
        // The file may be named by another path from another directory.
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
    point: &Point,
    interrupted: &AtomicBool,
) -> Result<(), SweepError> {
    // What was stopped, or is asked for again, is begun anew. A run of a sweep that was
    // killed may still go on: that one is not touched, and says so.
    if directory.run(&point.name).is_ok() {
        directory.remove_run(&point.name)?;
    }
    let number = point.name.split('_').next().unwrap_or(&point.name);
    let mut command = Command::new(&request.timeloom);
    command
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
