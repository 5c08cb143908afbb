//! Errors of run directories, each with the path and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use timeloom_time::{Instant, Virtual};

/// Error while a run directory is written or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The operating system refused a file operation.
    #[error("{path}: {source}{}", remedy(source))]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// `create` was called with a directory that contains other files.
    #[error(
        "{0} is not empty and is not a run directory; nothing was touched, choose another path"
    )]
    NotARun(PathBuf),
    /// `create` was called with the directory of an earlier run.
    #[error(
        "{0} holds a run already; choose another directory, or use `--replace`, which deletes \
         that run"
    )]
    RunThere(PathBuf),
    /// `open` or `recover` was called with a directory that is not a run.
    #[error("{0} is not a run directory (it has no manifest.json, no journal and no tables)")]
    NoRunHere(PathBuf),
    /// A run directory must not contain symbolic links.
    #[error(
        "{0} leads through a symbolic link, and none is followed in a run directory; remove the link, or choose another directory"
    )]
    Link(PathBuf),
    /// An entry of a run directory is neither a regular file nor a folder.
    #[error(
        "{path} is {kind}, not a regular file; it is not opened (remove it, or choose another directory)"
    )]
    NotAFile {
        /// Path of the entry in the run directory.
        path: PathBuf,
        /// Kind of the entry with its article, such as `a FIFO`.
        kind: &'static str,
    },
    /// The folder for an agent's results exists, and an earlier run did not create it.
    #[error(
        "{path} is in the way of an agent's results and holds other files; move it, or choose another directory"
    )]
    InTheWay {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The directory belongs to another user, who could redirect the writes of a run.
    #[error(
        "{path} belongs to another user (uid {uid}), who could make a run write elsewhere; choose a directory that does not exist yet, or `chown` this one"
    )]
    OtherOwner {
        /// Path of the directory.
        path: PathBuf,
        /// User ID of the owner.
        uid: u32,
    },
    /// Other users may write in the directory, and could redirect the writes of a run.
    #[error(
        "others may write in {0}, and could make a run write elsewhere; look at what is in it, then `chmod -R go-w {0}`"
    )]
    OthersMayWrite(PathBuf),
    /// Another process is still writing this run.
    #[error("{0} is still being written by a running session; stop that one first")]
    InUse(PathBuf),
    /// The recorded data has reached the limit set by the scenario.
    #[error(
        "signals, events and changes of the clock have reached their limit of {bytes} bytes; what came until then is kept (raise `results.journal_limit`, or record less often)"
    )]
    JournalLimit {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The value of a signal is NaN or infinite. Such a value is rejected where it is recorded:
    /// JSON cannot hold it, and a plot or a comparison that meets it later could not report its
    /// origin.
    #[error(
        "signal {name} at {} has the value {value}, which is not a finite number",
        *at - Instant::ZERO
    )]
    NotFinite {
        /// `source.name` of the signal.
        name: String,
        /// Virtual time of the sample.
        at: Instant<Virtual>,
        /// Rejected value.
        value: f64,
    },
    /// The recorder was used after `finish`.
    #[error("the run in {0} is finished; no more rows can be recorded")]
    Finished(PathBuf),
    /// The content of a file violates the format of run directories.
    #[error("{path}: {reason}")]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Description of the violation.
        reason: String,
    },
}

impl ResultsError {
    /// Converts an error of the operating system; `path` is the file concerned.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Creates an error for a file with invalid content.
    pub(crate) fn malformed(path: &Path, reason: impl ToString) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Returns a remedy to append to the message; empty if the error itself suggests one.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; what was recorded until then is kept: make room, then `timeloom report DIR` completes the tables"
        }
        _ => "",
    }
}
