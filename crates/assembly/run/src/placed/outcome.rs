//! What an agent says of its share of a run: how far it is, how it ended, and which files of
//! its run directory are sent back. [`serve`](super::serve) sends them.

use std::fs;
use std::path::Path;

use super::message::{Ended, Entry, How, Lengths};
use super::parcel::Sent;
use crate::experiment::{Progress, Summary};
use crate::verdict::End;

/// How far a run has come, as it is told.
pub(super) fn lengths(progress: &Progress) -> Lengths {
    Lengths {
        virtual_ns: progress.virtual_time.as_ns(),
        wall_ns: progress.wall.as_ns(),
        paused_ns: progress.paused.as_ns(),
    }
}

/// How an agent's share ended, without its files.
pub(super) fn ended(ran: Result<Summary, crate::RunError>) -> Ended {
    let (how, lengths, unhandled) = match ran {
        Ok(summary) => {
            let how = match summary.end {
                End::Reached => How::Reached,
                End::Interrupted => How::Interrupted,
                End::Failed(failure) => How::Failed(failure),
            };
            let call = |call: &timeloom_guest::UnhandledCall| {
                format!(
                    "{} {} × {} ({})",
                    call.program, call.call, call.count, call.outcome
                )
            };
            let unhandled = summary.unhandled.iter().map(call).collect();
            (how, lengths(&summary.progress), unhandled)
        }
        Err(error) => (
            How::NotBegun(error.to_string()),
            Lengths::default(),
            Vec::new(),
        ),
    };
    Ended {
        how,
        lengths,
        unhandled,
        results: Vec::new(),
    }
}

/// The files of a run directory that are sent back.
pub(super) fn gather(results: &Path) -> Vec<Sent> {
    let mut names: Vec<String> = TABLES.map(str::to_owned).into();
    for folder in ["logs", "net"] {
        let entries = fs::read_dir(results.join(folder)).into_iter().flatten();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        let inside = entries.flatten().filter_map(name);
        names.extend(inside.map(|name| format!("{folder}/{name}")));
    }
    let sent = |name: String| {
        let path = results.join(&name);
        // Not what a link leads to.
        let found = fs::symlink_metadata(&path)
            .ok()
            .filter(fs::Metadata::is_file)?;
        let entry = Entry {
            name,
            bytes: found.len(),
            executable: false,
        };
        Some(Sent { path, entry })
    };
    names.into_iter().filter_map(sent).collect()
}

/// Of a run directory: what is in it beside folders.
pub(super) const TABLES: [&str; 5] = [
    "manifest.json",
    "signals.parquet",
    "events.parquet",
    "clock.parquet",
    "labels.parquet",
];
