//! Run directories, captures and reports.

mod capture;
mod full_disk;
mod prepared;
mod report;
mod run_directory;
