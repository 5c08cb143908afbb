//! Record of a timeline's changes of status, from which a later analysis can determine when this
//! machine knew each status. A page shows the present status only, so a reader that polls once a
//! second misses a disturbance of 20 ms.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use timeloom_clock::Core;
use timeloom_clock::quality::Status;
use timeloom_clock::timeline::Segment;
use timeloom_time::Instant;
use timeloom_timeline::protocol::{StatusChange, encode};

/// File to which changes of status are appended.
pub(crate) struct StatusJournal {
    file: File,
    last: Status,
}

impl StatusJournal {
    /// Opens the file, and creates it if it is missing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::options().append(true).create(true).open(path)?,
            last: Status::NeverSynchronised,
        })
    }

    /// Appends `status`, which holds from `at` on, if it differs from the last one written. If the
    /// disk is full, the line is lost, because the pages must not wait for it.
    pub(crate) fn note(&mut self, at: Instant<Core>, status: Status, why: Option<String>) {
        if self.last == status {
            return;
        }
        self.last = status;
        let change = StatusChange {
            local_ns: at.as_ns(),
            status,
            why,
        };
        let mut line = encode(&change);
        line.push(b'\n');
        let _ = self.file.write_all(&line);
    }

    /// Appends the status that the published `segment` has at `now` because of its age.
    pub(crate) fn note_age(&mut self, segment: &Segment, now: Instant<Core>) {
        let status = segment.status_at(now);
        // A late worker thread does not mean that the daemon is dead, since this code still runs.
        if status != Status::DaemonDead {
            self.note(changed_at(segment, now), status, None);
        }
    }
}

/// Returns the instant at which the age of `segment` caused its status at `now`; `now` if its age
/// is not the cause.
fn changed_at(segment: &Segment, now: Instant<Core>) -> Instant<Core> {
    let ages = [segment.fresh_until, segment.void_after];
    let past = ages.into_iter().filter(|at| *at < now);
    past.min()
        .filter(|_| segment.status_at(now) == Status::SourceLost)
        .unwrap_or(now)
}

/// Returns the instant after `now` at which the age of `segment` next changes its status.
pub(crate) fn next_change(segment: &Segment, now: Instant<Core>) -> Option<Instant<Core>> {
    let ages = [segment.fresh_until, segment.void_after];
    ages.into_iter().filter(|at| *at >= now).min()
}
