//! Run directories, captures and reports.

mod capture;
mod prepared;
mod report;
mod run_directory;
