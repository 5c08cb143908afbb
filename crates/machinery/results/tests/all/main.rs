//! Run directories, captures and reports.

mod capture;
mod report;
mod run_directory;
