//! What can go wrong with a run directory, each with the path and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use timeloom_time::{Instant, Virtual};

/// Why a run directory could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The operating system refused a file operation.
    #[error("{path}: {source}{}", remedy(source))]
    Io {
        /// The file or directory concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `create` was pointed at a directory with somebody's files in it.
    #[error(
        "{0} is not empty and is not a run directory; nothing was touched, choose another path"
    )]
    NotARun(PathBuf),
    /// `create` was pointed at an earlier run.
    #[error(
        "{0} holds a run already; choose another directory, or say `--replace` to lose that run"
    )]
    RunThere(PathBuf),
    /// `open` or `recover` was pointed at something else.
    #[error("{0} is not a run directory (it has no manifest.json, no journal and no tables)")]
    NoRunHere(PathBuf),
    /// A run directory has only files and folders of its own.
    #[error(
        "{0} leads through a symbolic link, and none is followed in a run directory; remove the link, or choose another directory"
    )]
    Link(PathBuf),
    /// An entry of a run directory is neither a regular file nor a folder.
    #[error(
        "{path} is {kind}, not a regular file; it is not opened (remove it, or choose another directory)"
    )]
    NotAFile {
        /// The name in the directory.
        path: PathBuf,
        /// Kind of the entry, with its article.
        kind: &'static str,
    },
    /// The folder for an agent's results exists, and was not left by a run.
    #[error(
        "{path} is in the way of an agent's results and holds other files; move it, or choose another directory"
    )]
    InTheWay {
        /// The folder.
        path: PathBuf,
    },
    /// Who owns a directory may change under a run what it writes to.
    #[error(
        "{path} belongs to another user (uid {uid}), who could make a run write elsewhere; choose a directory that does not exist yet, or `chown` this one"
    )]
    OtherOwner {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// So may who can write in it.
    #[error(
        "others may write in {0}, and could make a run write elsewhere; look at what is in it, then `chmod -R go-w {0}`"
    )]
    OthersMayWrite(PathBuf),
    /// Another process still writes this run.
    #[error("{0} is still being written by a running session; stop that one first")]
    InUse(PathBuf),
    /// What is recorded has become as large as the scenario allows.
    #[error(
        "signals, events and changes of the clock have reached their limit of {bytes} bytes; what came until then is kept (raise `results.journal_limit`, or record less often)"
    )]
    JournalLimit {
        /// The limit.
        bytes: u64,
    },
    /// NaN and infinities are refused: JSON cannot hold them, and a plot or a
    /// deviation that meets one later could not say where it came from.
    #[error(
        "signal {name} at {} has the value {value}, which is not a finite number",
        *at - Instant::ZERO
    )]
    NotFinite {
        /// `source.name` of the signal.
        name: String,
        /// Its virtual instant.
        at: Instant<Virtual>,
        /// The refused value.
        value: f64,
    },
    /// The recorder was used after `finish`.
    #[error("the run in {0} is finished; no more rows can be recorded")]
    Finished(PathBuf),
    /// A file of the directory does not say what the contract promises.
    #[error("{path}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl ResultsError {
    /// Attaches the path to what the system said.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// A file whose content is wrong.
    pub(crate) fn malformed(path: &Path, reason: impl ToString) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// What to do about it, if the error alone does not say.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; what was recorded until then is kept: make room, then `timeloom report DIR` completes the tables"
        }
        _ => "",
    }
}
