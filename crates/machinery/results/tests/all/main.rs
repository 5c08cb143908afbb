//! Tests of run directories, captures and reports.

mod bombs;
mod capture;
mod full_disk;
mod prepared;
mod report;
mod run_directory;
mod strange_files;

/// Returns the path of a run directory.
fn place(run: &timeloom_results::RunDirectory) -> std::path::PathBuf {
    run.shown().to_string().into()
}
