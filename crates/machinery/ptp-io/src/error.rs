//! Errors of a PTP program.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Error of a program. The variant determines the exit status.
#[derive(Debug, thiserror::Error)]
pub enum PtpError {
    /// The arguments or a key file are invalid; the text states the problem and its remedy.
    #[error("{0}")]
    Usage(String),
    /// This machine or interface does not support the operation.
    #[error("{0}")]
    Unsupported(String),
    /// The kernel refused an operation.
    #[error("{action}: {error}{}", remedy(error))]
    System {
        /// Attempted operation.
        action: String,
        /// Error returned by the kernel.
        error: io::Error,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: io::Error,
    },
}

impl PtpError {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Returns a function for `map_err` that adds the attempted operation to an error.
    pub(crate) fn doing(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |error| Self::System { action, error }
    }

    /// Returns a function for `map_err` that adds the path of the file to an error.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}

/// Returns a text with the remedy for an error of the kernel; empty if none is known.
fn remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => " (needs root, or CAP_NET_RAW and CAP_NET_ADMIN)",
        Some(Errno::ADDRINUSE) => " (another PTP program on this interface?)",
        _ => "",
    }
}

impl From<timeloom_fabric::KernelError> for PtpError {
    fn from(error: timeloom_fabric::KernelError) -> Self {
        if error.missing().is_some() {
            Self::Unsupported(error.to_string())
        } else {
            Self::System {
                action: "build the laboratory".to_owned(),
                error: io::Error::other(error),
            }
        }
    }
}
