//! Processes that have the environment variable of a test, or the clock page of a session mapped.

use std::fs;
use std::path::PathBuf;

use crate::traces::{MARK, names};

/// Returns the processes that belong to one of these names, except this process.
pub(crate) fn of(names: &[String]) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let mut found = numbers("/proc");
    found.retain(|pid| *pid != own && (is_marked(*pid, &names[0]) || lives_by(*pid, names)));
    found
}

fn is_marked(pid: i32, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = variables.split(|byte| *byte == 0);
    variables.any(|variable| variable == wanted.as_bytes())
}

/// Returns true if the process has the clock page of one of these sessions mapped.
fn lives_by(pid: i32, sessions: &[String]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut pages = maps
        .lines()
        .filter_map(|line| line.split_once("timeloom-abi-").map(|(_, rest)| rest));
    pages.any(|page| sessions.iter().any(|session| names(page, session)))
}

/// Returns the command line and the state of a process. `D (frozen)` is a process that was left
/// frozen.
pub(crate) fn describe(pid: i32) -> String {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find(|line| line.starts_with("State:"));
    let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
    format!("process {pid}: {arguments} {}", state.unwrap_or_default())
}

/// Returns those entries of a directory whose names are numbers, as numbers.
pub(crate) fn numbers(path: &str) -> Vec<i32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns the open files of a process: the link in `/proc` and its target for each.
pub(crate) fn open_files(pid: &str) -> Vec<(PathBuf, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let paths = entries.into_iter().flatten().flatten().map(|it| it.path());
    paths
        .filter_map(|path| fs::read_link(&path).ok().map(|target| (path, target)))
        .collect()
}
