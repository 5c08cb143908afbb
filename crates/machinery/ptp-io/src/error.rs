//! Why a PTP program cannot start or go on.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Whose fault it is decides the exit code: the user's, the machine's, or the
/// run's.
#[derive(Debug, thiserror::Error)]
pub enum PtpError {
    /// The arguments or a key file; the text says what and how to mend it.
    #[error("{0}")]
    Usage(String),
    /// This machine or interface cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// A step that the kernel refused.
    #[error("{action}: {error}{}", remedy(error))]
    System {
        /// What was tried.
        action: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl PtpError {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// For `map_err`.
    pub(crate) fn doing(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |error| Self::System { action, error }
    }

    /// For `map_err`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}

/// What to do about what the kernel said, where that can be told.
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
