//! Beginning of a run directory, and its state if the run cannot start.

use std::sync::atomic::{AtomicBool, Ordering};

use timeloom_results::{Manifest, Outcome, RunDirectory};
use timeloom_scenario::Plan;

use crate::civil::civil_now;
use crate::error::RunError;
use crate::options::RunOptions;

/// Creates the run directory and begins its manifest, which is not written yet.
pub(crate) fn open(
    plan: &Plan,
    options: &RunOptions,
) -> Result<(RunDirectory, Manifest), RunError> {
    let directory = match options.replace {
        true => RunDirectory::replace(&options.directory)?,
        false => RunDirectory::create(&options.directory)?,
    };
    directory.set_room_aside()?;
    let scenario = plan.to_toml();
    directory.write_scenario(&scenario)?;
    let mut manifest = Manifest::begin(&plan.name, plan.seed, civil_now(), scenario.as_bytes());
    manifest.time_mode = plan.time.mode.to_string();
    Ok((directory, manifest))
}

/// Records that the run could not start.
pub(crate) fn note_failure(
    directory: &RunDirectory,
    mut manifest: Manifest,
    error: &RunError,
    interrupted: &AtomicBool,
) {
    manifest.outcome = match interrupted.load(Ordering::SeqCst) {
        true => Outcome::Interrupted,
        false => Outcome::Failed,
    };
    manifest.culprit = Some(error.to_string());
    manifest.ended = Some(civil_now());
    // The reason why the start failed takes precedence over errors while the results are closed.
    let _ = directory.use_room_aside();
    let _ = directory.write_manifest(&manifest);
}
