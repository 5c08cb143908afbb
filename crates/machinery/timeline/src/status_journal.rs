//! Record of a timeline's changes of status, for a later analysis of the times at which this
//! machine knew them. A page shows the present status only, and a reader that polls once a second
//! misses a disturbance of 20 ms.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use timeloom_clock::Core;
use timeloom_clock::quality::Status;
use timeloom_clock::timeline::Segment;
use timeloom_time::Instant;
use timeloom_timeline_protocol::{StatusChange, encode};

/// File to which changes are appended.
pub(crate) struct StatusJournal {
    file: File,
    last: Status,
}

impl StatusJournal {
    /// Opens the file, and makes it if it is missing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::options().append(true).create(true).open(path)?,
            last: Status::NeverSynchronised,
        })
    }

    /// Appends the status from `at` on, if it differs from the last one. If the disk is full, the
    /// line is lost: the pages must not wait for it.
    pub(crate) fn note(&mut self, at: Instant<Core>, status: Status, why: Option<String>) {
        if self.last == status {
            return;
        }
        self.last = status;
        let change = StatusChange {
            local_ns: at.as_ns(),
            status: status.into(),
            why,
        };
        let mut line = encode(&change);
        line.push(b'\n');
        let _ = self.file.write_all(&line);
    }

    /// Appends the status that the published `segment` has at its age of `now`.
    pub(crate) fn note_age(&mut self, segment: &Segment, now: Instant<Core>) {
        let status = segment.status_at(now);
        // A late thread does not mean that the daemon is dead: this code still runs.
        if status != Status::DaemonDead {
            self.note(changed_at(segment, now), status, None);
        }
    }
}

/// Returns the instant at which age gave `segment` its status of `now`; `now` if age did not.
fn changed_at(segment: &Segment, now: Instant<Core>) -> Instant<Core> {
    let ages = [segment.fresh_until, segment.void_after];
    let past = ages.into_iter().filter(|at| *at < now);
    past.min()
        .filter(|_| segment.status_at(now) == Status::SourceLost)
        .unwrap_or(now)
}

/// Returns the instant at which age next changes the status of `segment`.
pub(crate) fn next_change(segment: &Segment, now: Instant<Core>) -> Option<Instant<Core>> {
    let ages = [segment.fresh_until, segment.void_after];
    ages.into_iter().filter(|at| *at >= now).min()
}
