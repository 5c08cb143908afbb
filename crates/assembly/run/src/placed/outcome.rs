//! Report of an agent about its share of a run: progress, result, and the files of its run
//! directory that are sent back. [`serve`](super::serve) sends them.

use std::io;
use std::path::Path;

use timeloom_results::{OutgoingFile, RunDirectory};

use super::message::{Entry, Lengths, ShareEnd, ShareResult};
use crate::channel::Sender;
use crate::summary::{Progress, Summary};
use crate::verdict::End;

/// Converts the progress of a run to a message.
pub(super) fn lengths(progress: &Progress) -> Lengths {
    Lengths {
        virtual_ns: progress.virtual_time.as_ns(),
        wall_ns: progress.wall.as_ns(),
        paused_ns: progress.paused.as_ns(),
    }
}

/// Converts the outcome of an agent's share to a message, which does not list the files yet.
pub(super) fn ended(ran: Result<Summary, crate::RunError>) -> ShareResult {
    let (how, lengths, unhandled) = match ran {
        Ok(summary) => {
            let how = match summary.end {
                End::Reached => ShareEnd::Reached,
                End::Interrupted => ShareEnd::Interrupted,
                End::Failed(failure) => ShareEnd::Failed(failure),
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
            ShareEnd::NotBegun(error.to_string()),
            Lengths::default(),
            Vec::new(),
        ),
    };
    ShareResult {
        how,
        lengths,
        unhandled,
        results: Vec::new(),
    }
}

/// Returns the files of a run directory that are sent back; none if there is no run directory.
pub(super) fn gather(results: &Path) -> Vec<OutgoingFile> {
    let run = RunDirectory::open(results);
    run.map(|run| run.outgoing()).unwrap_or_default()
}

/// Returns the announcement of a file, which is sent before the file's content.
pub(super) fn entry(file: &OutgoingFile) -> Entry {
    Entry {
        name: file.name.clone(),
        bytes: file.bytes,
        executable: false,
    }
}

/// Sends the content of each file, in order.
pub(super) fn send(sender: &mut Sender, files: &mut [OutgoingFile]) -> io::Result<()> {
    for OutgoingFile { name, file, bytes } in files {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
        sender.content(file, *bytes).map_err(named)?;
    }
    Ok(())
}
