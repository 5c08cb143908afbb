//! Laboratory for one test: a directory with a scenario, and a run of that scenario. The run has a
//! mark by which all its parts can be found.

mod lab;
mod results;
mod scenario;

pub(crate) use lab::{Finished, Lab, Running, patiently, timeloom};
pub(crate) use results::{Sample, log_lines, samples, stands};
pub(crate) use scenario::{POLL, Scenario};

use std::path::PathBuf;

/// Returns the root of the source tree.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
        .canonicalize()
        .expect("the source tree is there")
}

/// Returns the path of a Python with pymodbus and OpenDSS, which the Makefile prepares.
pub(crate) fn prepared_python() -> String {
    let python = repository().join(".venv/bin/python");
    assert!(
        python.exists(),
        "{} is missing: run `make test`, which makes it",
        python.display()
    );
    python.display().to_string()
}

/// Returns the path of a run directory.
pub(crate) fn place(run: &timeloom_results::RunDirectory) -> std::path::PathBuf {
    run.shown().to_string().into()
}
