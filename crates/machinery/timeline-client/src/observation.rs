//! A timeline as a person asks for it: one reading, and its daemon's report.

use serde::Serialize;
use timeloom_publish::{PageReader, Refusal};

use crate::{OpenError, Timeline};
use timeloom_timeline_protocol::{
    Answer, Ask, Connection, Directory, Report, StampText, TimelineName,
};

/// What can be seen of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// Its name.
    pub name: TimelineName,
    /// A reading of its page.
    #[serde(flatten)]
    pub stamp: StampText,
    /// What its daemon says, if one keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Report>,
}

/// Reads the page of `name` in `directory`, without its daemon's help where there is a
/// file.
///
/// # Errors
/// When there is no page or it is refused.
pub fn read(directory: &Directory, name: &TimelineName) -> Result<StampText, Refusal> {
    directory.check().map_err(|_| Refusal::Map(EPERM))?;
    match PageReader::open_path(&directory.page(name)) {
        Ok(reader) => reader.read().map(StampText::from),
        // In the guest of a virtual machine there is no file, and who measures is asked.
        Err(missing @ Refusal::Map(ENOENT)) => match Timeline::open_in(directory, name.as_str()) {
            Ok(timeline) => timeline.read().map(StampText::from),
            Err(OpenError::Page(refusal)) => Err(refusal),
            Err(_) => Err(missing),
        },
        Err(refusal) => Err(refusal),
    }
}

/// Reads the page and asks the daemon.
///
/// # Errors
/// As [`read`]. That no daemon answers is no error.
pub fn observe(directory: &Directory, name: &TimelineName) -> Result<Observation, Refusal> {
    let stamp = read(directory, name)?;
    let daemon = Connection::open(directory, name)
        .ok()
        .and_then(|mut connection| match connection.ask(Ask::Report) {
            Ok(Answer::Report(report)) => Some(*report),
            _ => None,
        });
    Ok(Observation {
        name: name.clone(),
        stamp,
        daemon,
    })
}

/// There is no such file.
const ENOENT: i32 = 2;

/// Others could have put the page there.
const EPERM: i32 = 1;
