//! State of a timeline for display: one reading, and a report of the timeline's daemon.

use crate::shm::{PageReader, Refusal};
use serde::Serialize;

use crate::protocol::{
    Answer, Connection, Directory, RequestKind, StampText, TimelineName, TimelineReport,
};
use crate::{OpenError, Timeline};

/// State of a timeline as seen by an observer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// Name of the timeline.
    pub name: TimelineName,
    /// Reading of the timeline's page.
    #[serde(flatten)]
    pub stamp: StampText,
    /// Report of the timeline's daemon; `None` if no daemon answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<TimelineReport>,
}

/// Reads the page of `name` in `directory`. The daemon is asked only if there is no file.
///
/// # Errors
/// Fails if there is no page, or if the page is refused.
pub fn read(directory: &Directory, name: &TimelineName) -> Result<StampText, Refusal> {
    directory.check().map_err(|_| Refusal::Map(EPERM))?;
    match PageReader::open_path(&directory.page(name)) {
        Ok(reader) => reader.read().map(StampText::from),
        // In the guest of a virtual machine there is no file for the page, so the daemon passes it.
        Err(missing @ Refusal::Map(ENOENT)) => match Timeline::open_in(directory, name.as_str()) {
            Ok(timeline) => timeline.read().map(StampText::from),
            Err(OpenError::Page(refusal)) => Err(refusal),
            Err(_) => Err(missing),
        },
        Err(refusal) => Err(refusal),
    }
}

/// Reads the page and asks the daemon for a report.
///
/// # Errors
/// Fails as [`read`] does. A missing daemon is not an error.
pub fn observe(directory: &Directory, name: &TimelineName) -> Result<Observation, Refusal> {
    let stamp = read(directory, name)?;
    let daemon = Connection::open(directory, name)
        .ok()
        .and_then(|mut connection| match connection.ask(RequestKind::Report) {
            Ok(Answer::Report(report)) => Some(*report),
            _ => None,
        });
    Ok(Observation {
        name: name.clone(),
        stamp,
        daemon,
    })
}

/// Error number for a missing file.
const ENOENT: i32 = 2;

/// Error number for a directory in which other users could have created the page.
const EPERM: i32 = 1;
