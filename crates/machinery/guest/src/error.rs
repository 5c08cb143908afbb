//! Errors in running a program under a virtual clock.

use std::io;

/// Error: the failed operation, with its description and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A system call failed. `doing` completes the sentence "… failed".
    #[error("{doing}: {source}")]
    System {
        /// Description of the attempted operation.
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// This machine does not support the operation; contains what is missing.
    #[error("{0}")]
    Unsupported(String),
    /// The program to run was not found or may not be executed.
    #[error("cannot run `{program}`: {source}")]
    NoProgram {
        /// Program as the user wrote it.
        program: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The user requested something impossible; contains the message.
    #[error("{0}")]
    Usage(String),
}

impl GuestError {
    /// Wraps the kernel's last error (errno), with the attempted operation.
    pub(crate) fn last(doing: impl Into<String>) -> Self {
        Self::System {
            doing: doing.into(),
            source: io::Error::last_os_error(),
        }
    }

    /// Returns a function that wraps an error, with the attempted operation `doing`.
    pub(crate) fn system<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |source| Self::System {
            doing,
            source: source.into(),
        }
    }
}

/// Converts a result in the C convention (-1 and errno) to a `Result`.
pub(crate) fn check(result: i64, doing: impl Into<String>) -> Result<i64, GuestError> {
    if result < 0 {
        Err(GuestError::last(doing))
    } else {
        Ok(result)
    }
}
