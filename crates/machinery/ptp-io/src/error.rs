//! Why a PTP program cannot start or go on.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Whose fault it is decides the exit code: the user's, the machine's, or the
/// run's.
#[derive(Debug)]
pub enum PtpError {
    /// The arguments or a key file; the text says what and how to mend it.
    Usage(String),
    /// This machine or interface cannot do it.
    Unsupported(String),
    /// A step that the kernel refused.
    System {
        /// What was tried.
        action: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file that cannot be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl PtpError {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// For `map_err`.
    pub(crate) fn doing(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }

    /// For `map_err`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

impl fmt::Display for PtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Unsupported(text) => f.write_str(text),
            Self::System { action, source } => {
                write!(f, "{action}: {source}")?;
                match Errno::from_io_error(source) {
                    Some(Errno::PERM | Errno::ACCESS) => {
                        f.write_str(" (needs root, or CAP_NET_RAW and CAP_NET_ADMIN)")
                    }
                    Some(Errno::ADDRINUSE) => {
                        f.write_str(" (another PTP program on this interface?)")
                    }
                    _ => Ok(()),
                }
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for PtpError {}

impl From<timeloom_fabric::KernelError> for PtpError {
    fn from(error: timeloom_fabric::KernelError) -> Self {
        if error.missing().is_some() {
            Self::Unsupported(error.to_string())
        } else {
            Self::System {
                action: "build the laboratory".to_owned(),
                source: io::Error::other(error),
            }
        }
    }
}
