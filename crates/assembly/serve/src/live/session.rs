//! The session of a run that goes on, found by the directory that it names.

use timeloom_guest::{StatusText, Watching, list_sessions};
use timeloom_results::RunDirectory;

/// Returns the session that writes this run, with its status; `None` if the run does not go on.
/// Sessions of other users are not found, and those of another version of Timeloom do not answer.
pub(crate) fn find(run: &RunDirectory) -> Option<(Watching, StatusText)> {
    let names = list_sessions().unwrap_or_default();
    names.iter().find_map(|name| {
        let mut watching = Watching::open(name).ok()?;
        let status = watching.status().ok()?;
        let directory = status.directory.as_deref()?;
        run.is_at(directory).then_some((watching, status))
    })
}
